# Brings uPlot by npm into WORK. npm's cache is enough if it is there, without a network.
foreach(file package.json package-lock.json)
  configure_file(${SOURCE}/${file} ${WORK}/${file} COPYONLY)
endforeach()
execute_process(COMMAND ${NPM} ci --ignore-scripts --no-audit --no-fund --prefer-offline --loglevel=error
  WORKING_DIRECTORY ${WORK} RESULT_VARIABLE failed OUTPUT_QUIET ERROR_VARIABLE why)
if(failed)
  message(FATAL_ERROR "npm could not bring uPlot, which draws the dashboard's plots:\n${why}\n"
    "If this machine cannot reach npm's registry, build without the dashboard (-DSIGNVOTE_DASHBOARD=OFF), or "
    "bring npm's cache (npm config get cache) from a machine that has built it.")
endif()
file(TOUCH ${WORK}/node_modules/uplot/dist/uPlot.iife.min.js ${WORK}/node_modules/uplot/dist/uPlot.min.css
  ${WORK}/node_modules/uplot/LICENSE)  # npm gives them the time of their release
