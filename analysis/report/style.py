"""How a report looks: light and dark, and rows that become cards on a narrow screen."""

from typing import Final

STYLE: Final = """
:root { color-scheme: light dark; --ink: #1b1f24; --paper: #ffffff; --soft: #5a6572; --line: #d8dee4;
  --panel: #f6f8fa; --good: #116329; --bad: #a40e26; --open: #7a4d00; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6edf3; --paper: #0d1117; --soft: #9aa7b4; --line: #30363d;
  --panel: #161b22; --good: #56d364; --bad: #ff8d85; --open: #e3b341; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink); font: 16px/1.5 system-ui, sans-serif; }
main { max-width: 74rem; margin: 0 auto; padding: 1.5rem 1rem 4rem; }
h1 { font-size: 1.5rem; line-height: 1.25; margin: 0 0 .75rem; }
h2 { font-size: 1.15rem; margin: 2.5rem 0 .75rem; padding-top: .75rem; border-top: 1px solid var(--line); }
p { margin: .5rem 0; max-width: 46rem; overflow-wrap: anywhere; }
.headline { font-size: 1.15rem; max-width: 52rem; }
.soft, figcaption, dt + dd { color: var(--soft); }
.soft, figcaption { font-size: .875rem; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; font-size: .875rem; }
th, td { text-align: right; padding: .4rem .55rem; vertical-align: top; }
th, td { border-bottom: 1px solid var(--line); }
thead th { color: var(--soft); font-weight: 600; vertical-align: bottom; }
tbody th, th:first-child { text-align: left; overflow-wrap: break-word; }
table.words th, table.words td { text-align: left; }
td span { white-space: nowrap; }
table.words span { white-space: normal; overflow-wrap: break-word; }
.table { overflow-x: auto; }
.figures { display: grid; gap: 1.5rem 2rem; }
.figures { grid-template-columns: repeat(auto-fit, minmax(min(100%, 26rem), 1fr)); }
figure { margin: 0; min-width: 0; }
figure h3 { font-size: 1rem; margin: 0 0 .25rem; }
figure svg { display: block; width: 100%; max-width: 36rem; height: auto; }
.supported { color: var(--good); font-weight: 600; }
.contradicted { color: var(--bad); font-weight: 600; }
.not-run { color: var(--open); }
.not-separable { color: var(--open); font-weight: 600; }
dl { margin: 0; }
dt { font-weight: 600; margin-top: .6rem; }
dd { margin: 0; max-width: 46rem; overflow-wrap: anywhere; }
@media (max-width: 56rem) {
  thead { position: absolute; left: -10000px; }
  tr { display: block; margin: 0 0 .9rem; padding: .4rem .7rem; }
  tr { border: 1px solid var(--line); border-radius: 6px; }
  tbody th { display: block; border: 0; padding: .3rem 0; font-size: 1rem; }
  td { display: flex; justify-content: space-between; gap: 1rem; border: 0; padding: .15rem 0; }
  td::before { content: attr(data-label); color: var(--soft); }
  td::before { text-align: left; flex: none; max-width: 50%; }
  table.words td { display: block; }
  table.words td::before { display: block; max-width: none; font-size: .8rem; }
  table.words td:empty { display: none; }
}
"""
