# Writes OUT, a C++ file with the page's files as arrays: those of OWN, which are in SOURCE, and uPlot's.
set(paths "")
set(files "")
foreach(name ${OWN})
  list(APPEND paths /${name})
  list(APPEND files ${SOURCE}/${name})
endforeach()
list(APPEND paths /uplot.js /uplot.css /uplot.license.txt)
list(APPEND files ${UPLOT}/dist/uPlot.iife.min.js ${UPLOT}/dist/uPlot.min.css ${UPLOT}/LICENSE)

set(types_html "text/html; charset=utf-8")
set(types_css "text/css; charset=utf-8")
set(types_js "text/javascript; charset=utf-8")
set(types_svg "image/svg+xml")
set(types_txt "text/plain; charset=utf-8")
set(arrays "")
set(rows "")
set(number 0)
foreach(path file IN ZIP_LISTS paths files)
  file(READ ${file} bytes HEX)
  string(REGEX REPLACE "(..)" "0x\\1," bytes "${bytes}")
  string(REGEX MATCH "[a-z]+$" ending ${path})
  string(APPEND arrays "constexpr unsigned char k${number}[] = {${bytes}};\n")
  string(APPEND rows "      {\"${path}\", \"${types_${ending}}\",\n"
    "       {reinterpret_cast<const char*>(k${number}), sizeof k${number}}},\n")
  math(EXPR number "${number} + 1")
endforeach()
file(WRITE ${OUT} "#include \"report/dashboard_assets.h\"\n\nnamespace signvote {\nnamespace {\n${arrays}}  // namespace\n
std::span<const Asset> dashboard_assets() {
  static const Asset assets[] = {
${rows}  };
  return assets;
}\n\n}  // namespace signvote\n")
