// The style sheet of a comparison's page. It has no character that XML escapes.
#pragma once

namespace signvote {

inline constexpr const char* kComparisonStyle = R"(
:root { color-scheme: light; --paper: #fff; --ink: #1d232b; --soft: #58626f; --rule: #d9dee5; --tint: #f3f5f8;
  --accent: #0b62a8; --warn: #9a4a00; --good: #dcebf8;
  --c0: #0072b2; --c1: #c84e00; --c2: #007f5f; --c3: #a63d85; --c4: #94690a; --c5: #2a86bd; --c6: #4a4f57;
  --c7: #6650b3 }
@media screen and (prefers-color-scheme: dark) { :root { color-scheme: dark; --paper: #14181d; --ink: #e4e8ed;
  --soft: #9aa6b4; --rule: #333c47; --tint: #1c222a; --accent: #6cb6f2; --warn: #ffb066; --good: #1d3a54;
  --c0: #5cb3ec; --c1: #ff8a47; --c2: #3fcb9c; --c3: #e893ca; --c4: #efba42; --c5: #a5d8f7; --c6: #c3c9d1;
  --c7: #b7a5ff } }
* { box-sizing: border-box }
body { margin: 0 auto; padding: 1.5rem 1.25rem 4rem; max-width: 76rem; background: var(--paper); color: var(--ink);
  font: 16px/1.55 system-ui, "Segoe UI", "DejaVu Sans", sans-serif; overflow-wrap: break-word }
h1 { font-size: 1.9rem; line-height: 1.2; margin: .5rem 0 .25rem }
h2 { font-size: 1.35rem; margin: 3rem 0 .5rem; padding-top: .75rem; border-top: 2px solid var(--rule) }
h3 { font-size: 1.05rem; margin: 1.75rem 0 .5rem }
p, ul, dl { max-width: 46rem; margin: .5rem 0 1rem }
.lead { color: var(--soft); font-size: 1.05rem }
.note { color: var(--soft); font-size: .92rem }
.warn { color: var(--warn) }
li { margin: .35rem 0 }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .4rem 1.1rem }
dt { font-weight: 650 }
dd { margin: 0 }
code, pre { font-family: ui-monospace, "DejaVu Sans Mono", monospace; font-size: .86em }
pre { background: var(--tint); border: 1px solid var(--rule); border-radius: 6px; padding: .7rem .9rem;
  white-space: pre-wrap; overflow-wrap: anywhere; margin: .4rem 0 }
.hash { overflow-wrap: anywhere }
.flow { display: flex; flex-wrap: wrap; gap: .6rem; list-style: none; padding: 0; max-width: none; counter-reset: step }
.flow li { flex: 1 1 11rem; background: var(--tint); border-radius: 8px; padding: .7rem .9rem; margin: 0;
  border-left: 4px solid var(--accent) }
.flow strong { display: block }
.wide { overflow-x: auto; max-width: 100%; margin: .5rem 0 1rem }
table { border-collapse: collapse; font-size: .93rem; font-variant-numeric: tabular-nums }
th, td { padding: .38rem .6rem; text-align: left; border-bottom: 1px solid var(--rule); vertical-align: top }
thead th { color: var(--soft); font-weight: 600; vertical-align: bottom; border-bottom: 2px solid var(--rule) }
th[title] { text-decoration: underline dotted; text-underline-offset: 3px; cursor: help }
tbody th { font-weight: 550; min-width: 9rem }
tbody.panel th.panel { background: var(--tint); font-weight: 650 }
td.number, th.number { text-align: right }
td.highest { font-weight: 700; background: var(--good) }
.legend { position: sticky; top: 0; z-index: 1; display: flex; flex-wrap: wrap; gap: .2rem 1.4rem; padding: .55rem 0;
  background: var(--paper); border-bottom: 1px solid var(--rule); margin: .5rem 0 }
.legend label { display: inline-flex; align-items: center; gap: .45rem; cursor: pointer; padding: .15rem 0 }
.grid-of-charts { display: grid; gap: 1.2rem 1.8rem; grid-template-columns: repeat(auto-fit, minmax(min(100%, 25rem), 1fr)) }
figure { margin: 0; max-width: 40rem; break-inside: avoid }
figcaption { font-weight: 600; font-size: .95rem; margin-bottom: .2rem }
svg { width: 100%; height: auto; display: block; overflow: visible }
svg svg { overflow: hidden }
svg.sample { width: 40px; height: 14px; flex: none }
svg text { fill: var(--soft); font-size: 13px }
.grid { fill: none; stroke: var(--rule); stroke-width: 1 }
.frame { fill: none; stroke: var(--soft); stroke-width: 1.2 }
.line { fill: none; stroke: var(--c); stroke-width: 2.4; stroke-linejoin: round }
.thin { stroke-width: 1.1; opacity: .45 }
.mark { fill: var(--c); stroke: var(--paper); stroke-width: .8 }
.near { fill: transparent; stroke: none }
g:hover .mark { stroke: var(--ink); stroke-width: 2 }
.s0 { --c: var(--c0) } .s1 { --c: var(--c1) } .s2 { --c: var(--c2) } .s3 { --c: var(--c3) } .s4 { --c: var(--c4) }
.s5 { --c: var(--c5) } .s6 { --c: var(--c6) } .s7 { --c: var(--c7) }
.line.s1 { stroke-dasharray: 9 4 } .line.s2 { stroke-dasharray: 3 3 } .line.s4 { stroke-dasharray: 2 4 }
.line.s5 { stroke-dasharray: 6 3 } .line.s6 { stroke-dasharray: 9 3 2 3 } .line.s7 { stroke-dasharray: 14 3 }
.bar { display: inline-block; height: .7em; min-width: 1px; background: var(--accent); border-radius: 2px; margin-left: .5rem }
details { margin: .4rem 0 }
summary { cursor: pointer; padding: .2rem 0 }
:focus-visible { outline: 3px solid var(--accent); outline-offset: 2px; border-radius: 3px }
@media (max-width: 40rem) { body { padding: 1rem .8rem 3rem } h1 { font-size: 1.5rem } th, td { padding: .35rem .5rem }
  dl { display: block } dd { margin: 0 0 .6rem } svg text { font-size: 15px } .legend { position: static } }
@media print { body { max-width: none; font-size: 10.5pt; padding: 0 } .legend { position: static } .legend input { display: none }
  h2, h3, h3 + p, summary { break-after: avoid } tr, pre, .flow li, .run { break-inside: avoid } .wide { overflow: visible }
  table { font-size: 8.5pt } th, td { padding: .2rem .35rem } thead { display: table-header-group } }
)";

}  // namespace signvote
