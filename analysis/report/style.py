"""How does a report look? Light and dark, as cards on a narrow screen, and on paper."""

from typing import Final

STYLE: Final = """
:root { color-scheme: light; --ink: #1b1f24; --paper: #ffffff; --soft: #5a6572; --line: #d8dee4;
  --panel: #f3f6f9; --link: #0b5cad; --good: #116329; --bad: #a40e26; --open: #7a4d00; }
@media screen and (prefers-color-scheme: dark) {
  :root { color-scheme: dark; --ink: #e6edf3; --paper: #0d1117; --soft: #9aa7b4; --line: #30363d;
  --panel: #161b22; --link: #79b8ff; --good: #56d364; --bad: #ff8d85; --open: #e3b341; } }
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body { margin: 0; background: var(--paper); color: var(--ink); font: 16px/1.5 system-ui, sans-serif; }
main { max-width: 76rem; margin: 0 auto; padding: 1.75rem 1.25rem 4rem; }
h1 { font-size: 1.5rem; line-height: 1.25; margin: 0 0 1rem; overflow-wrap: anywhere; }
h2 { font-size: 1.2rem; line-height: 1.3; margin: 2.25rem 0 .75rem; padding-top: 1rem; }
h2 { border-top: 1px solid var(--line); }
h3 { font-size: 1rem; line-height: 1.3; margin: 0 0 .35rem; overflow-wrap: anywhere; }
p { margin: .5rem 0; max-width: 48rem; overflow-wrap: anywhere; }
a { color: var(--link); text-underline-offset: .15em; }
code { font: .92em/1.4 ui-monospace, Menlo, Consolas, monospace; overflow-wrap: anywhere; }
.headline { font-size: 1.15rem; max-width: none; margin: 0 0 1rem; padding: .9rem 1.1rem; }
.headline { background: var(--panel); border-left: 4px solid var(--link); border-radius: 0 6px 6px 0; }
.soft, .source, figcaption { color: var(--soft); font-size: .875rem; }
nav { display: flex; flex-wrap: wrap; gap: .25rem 1.1rem; margin-top: 1rem; font-size: .9rem; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; font-size: .875rem; }
th, td { text-align: right; padding: .4rem .6rem; vertical-align: top; }
th, td { border-bottom: 1px solid var(--line); }
thead th { color: var(--soft); font-weight: 600; vertical-align: bottom; overflow-wrap: anywhere; }
thead th { min-width: 4.5rem; }
tbody th, th:first-child { text-align: left; overflow-wrap: break-word; }
tbody tr:hover { background: var(--panel); }
table.words th, table.words td { text-align: left; }
td span { white-space: nowrap; }
table.words span { white-space: normal; overflow-wrap: break-word; }
.table { overflow-x: auto; }
.slim { max-width: 36rem; }
.source + .table, .source + .figures { margin-top: 1.5rem; }
@media screen {
  .long { max-height: 38rem; overflow: auto; border: 1px solid var(--line); border-radius: 6px; }
  .long thead th { position: sticky; top: 0; background: var(--panel); }
}
.figures { display: grid; gap: 2rem 2.5rem; }
.figures { grid-template-columns: repeat(auto-fit, minmax(min(100%, 27rem), 1fr)); }
figure { margin: 0; min-width: 0; }
figure svg { display: block; width: 100%; max-width: 40rem; height: auto; }
figcaption { margin-top: .35rem; overflow-wrap: anywhere; }
.supported { color: var(--good); font-weight: 600; }
.contradicted { color: var(--bad); font-weight: 600; }
.not-run { color: var(--open); }
.not-separable { color: var(--open); font-weight: 600; }
dl { display: grid; grid-template-columns: 13rem minmax(0, 1fr); gap: .55rem 1.5rem; margin: 0; }
dt { font-weight: 600; overflow-wrap: anywhere; }
dd { margin: 0; max-width: 50rem; color: var(--soft); overflow-wrap: anywhere; }
@media screen and (max-width: 56rem) {
  main { padding: 1.1rem 1rem 3rem; }
  thead { position: absolute; left: -10000px; }
  table, tbody { display: block; }
  tr { display: block; margin: 0 0 .9rem; padding: .4rem .7rem; }
  tr { border: 1px solid var(--line); border-radius: 6px; }
  tbody th { display: block; border: 0; padding: .3rem 0; font-size: 1rem; overflow-wrap: anywhere; }
  td { display: flex; justify-content: space-between; gap: 1rem; border: 0; padding: .15rem 0; }
  td::before { content: attr(data-label); color: var(--soft); }
  td::before { text-align: left; max-width: 55%; overflow-wrap: anywhere; }
  td span { white-space: normal; }
  table.words td { display: block; }
  table.words td::before { display: block; max-width: none; font-size: .8rem; }
  table.words td:empty { display: none; }
  dl { display: block; }
  dt { margin-top: .7rem; }
}
@media screen and (max-width: 56rem) {
  .long { max-height: 30rem; padding: .6rem .6rem 0; }
}
@media print {
  @page { margin: 14mm 12mm; }
  body { font-size: 10pt; }
  main { max-width: none; padding: 0; }
  nav, .source { display: none; }
  .headline { border: 1px solid var(--line); border-left: 4px solid var(--link); }
  h2, h3, thead { break-after: avoid; }
  h2 { margin-top: 1.2rem; }
  figure, tr, .headline { break-inside: avoid; }
  .figures { grid-template-columns: 1fr 1fr; gap: 1.2rem 1.5rem; }
  .table { overflow: visible; }
  table { font-size: 7.5pt; }
  th, td { padding: .2rem .3rem; }
  thead th { min-width: 0; }
  td span { white-space: normal; }
  dl { grid-template-columns: 9rem minmax(0, 1fr); font-size: 8.5pt; }
}
"""
