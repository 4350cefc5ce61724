<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
<meta name="generator" content="udogen ${version}">
<title>${title}</title>
<link rel="icon" href="data:,">
<style>
${style}</style>
</head>
<body>
<svg class="symbols" aria-hidden="true" width="0" height="0">
<symbol id="i-passed" viewBox="0 0 16 16"><path d="M3 8.5l3.2 3.3L13 4.5"/></symbol>
<symbol id="i-failed" viewBox="0 0 16 16"><path d="M4 4l8 8M12 4l-8 8"/></symbol>
<symbol id="i-error" viewBox="0 0 16 16"><path d="M8 2.5v7M8 12.5v1.2"/></symbol>
<symbol id="i-skipped" viewBox="0 0 16 16"><path d="M3 8h10"/></symbol>
<symbol id="i-ran" viewBox="0 0 16 16"><path d="M4.6 6a3.4 3.4 0 1 1 4.6 3.2c-.8.3-1.2.8-1.2 1.6M8 13.2v.8"/></symbol>
<symbol id="i-none" viewBox="0 0 16 16"><path d="M7 8h2"/></symbol>
</svg>
<a class="jump" href="#main">To the results</a>

<header class="top">
<p class="over"><b>udogen test</b> <span>${folder}</span></p>
<h1 class="${kind}"><svg class="icon" aria-hidden="true"><use href="#i-${kind}"/></svg><span>${sentence}</span></h1>
<nav aria-label="Sections">
% if problems:
<a href="#wrong">Failures</a>
% endif
<a href="#matrix">Matrix</a>
% if networks:
<a href="#networks">Networks</a>
% endif
% if absent:
<a href="#absent">Not tested</a>
% endif
% if costs:
<a href="#costs">Cost</a>
% endif
% if compared:
<a href="#compared">Against an earlier run</a>
% endif
<a href="#environment">Environment</a>
<a href="#cases">All cases</a>
</nav>
</header>

<main id="main">
% if warnings:
<section class="card" aria-labelledby="warnings">
<h2 id="warnings">Warnings</h2>
<ul>
% for each in warnings:
<li>${each}</li>
% endfor
</ul>
</section>
% endif
% if problems:
<section aria-labelledby="wrong">
<h2 id="wrong">Failures</h2>
% for problem in problems:
<article class="card problem ${problem.kind}" aria-labelledby="${problem.id}">
<h3 id="${problem.id}"><svg class="icon" aria-hidden="true"><use href="#i-${problem.kind}"/></svg><span>${problem.op}: ${problem.cause}</span></h3>
<p class="scope">${problem.scope}</p>
% if problem.sentence:
<p class="sentence">${problem.sentence}</p>
% endif
% for card in problem.cards:
% if card.unfolded:
<details class="case" open>
% else:
<details class="case">
% endif
<summary><h4>${card.name}</h4> <span class="where">${card.where}</span> <span class="chip ${card.kind}">${card.chip}</span></summary>
<div class="full" id="${card.id}">
% if card.lead:
<p class="lead">${card.lead}</p>
% endif
% if card.details:
<pre tabindex="0" role="group" aria-label="Output">
% for each in card.details:
${each}
% endfor
</pre>
% endif
% if card.hint:
<p class="hint"><b>What to do:</b> ${card.hint}</p>
% endif
% for each in card.findings:
<div class="finding">
<p class="cause"><span class="chip plain">${each.name}</span> ${each.sentence}</p>
% if each.evidence:
<p class="evidence"><b>Evidence:</b> ${each.evidence}</p>
% endif
% if each.hint:
<p class="hint"><b>What to do:</b> ${each.hint}</p>
% endif
</div>
% endfor
% if card.first:
<div>
<h5>The first wrong elements</h5>
${card.first}
</div>
% endif
<div class="columns">
% if card.histogram:
<div>
<h5>Errors by size</h5>
${card.histogram}
</div>
% endif
% if card.numbers:
<div>
<h5>Error</h5>
<dl>
% for each in card.numbers:
<div><dt>${each.name}</dt><dd>${each.value}</dd></div>
% endfor
</dl>
</div>
% endif
<div>
<h5>The case</h5>
<dl>
% for each in card.case:
<div><dt>${each.name}</dt><dd>${each.value}</dd></div>
% endfor
</dl>
</div>
</div>
<p class="again"><b>Run it again:</b> <code>${card.again}</code></p>
</div>
</details>
% endfor
% if problem.rows:
<details class="case">
<summary><h4>${problem.more}</h4></summary>
${problem.rows}
</details>
% endif
</article>
% endfor
</section>
% endif

<section class="card" aria-labelledby="matrix">
<h2 id="matrix">Op, data type and backend</h2>
% if matrix.rows:
<div class="scroll" tabindex="0" role="group" aria-labelledby="matrix">
<table class="matrix stack" role="table">
<thead role="rowgroup"><tr role="row"><th scope="col" role="columnheader">op</th><th scope="col" role="columnheader">data type</th>
% for column in matrix.columns:
<th scope="col" role="columnheader" class="${column.kind}">${column.name}<small>${column.note}</small></th>
% endfor
</tr></thead>
<tbody role="rowgroup">
% for row in matrix.rows:
<tr role="row"><th scope="row" role="rowheader">${row.op}</th><td role="cell" class="type">${row.dtype}</td>
% for cell in row.cells:
<td role="cell" class="${cell.kind}"><span class="label" aria-hidden="true">${cell.backend}</span><span class="lines">
% for line in cell.lines:
% if line.href:
<a class="line ${line.kind}" href="${line.href}"><svg class="icon" aria-hidden="true"><use href="#i-${line.kind}"/></svg>${line.text}</a>
% else:
<span class="line ${line.kind}"><svg class="icon" aria-hidden="true"><use href="#i-${line.kind}"/></svg>${line.text}</span>
% endif
% endfor
% if cell.why:
<small>${cell.why}</small>
% endif
</span></td>
% endfor
</tr>
% endfor
</tbody>
</table>
</div>
% else:
<p>There are no cases.</p>
% endif
</section>

% if networks:
<section class="card" aria-labelledby="networks">
<h2 id="networks">Whole networks</h2>
<p class="quiet">Errors are parts of the range of a tensor. The own error of a layer is what it adds to the inputs that it had; the other one is that since the first layer.</p>
% for network in networks:
% if network.unfolded:
<details class="case" open>
% else:
<details class="case">
% endif
<summary><h3>${network.title}</h3> <span class="chip ${network.kind}">${network.label}</span></summary>
<div class="full">
<pre tabindex="0" role="group" aria-label="Layers">
% for each in network.lines:
${each}
% endfor
</pre>
</div>
</details>
% endfor
</section>
% endif
% if absent:
<section class="card" aria-labelledby="absent">
<h2 id="absent">Not tested, and why</h2>
<dl class="absent">
% for each in absent:
<div id="${each.href}"><dt>${each.name} <span class="chip skipped">${each.note}</span></dt>
<dd>
% if each.title:
<p class="quiet">${each.title}</p>
% endif
% if each.reason:
<p>${each.reason}</p>
% endif
% if each.hint:
<p class="hint"><b>What to do:</b> ${each.hint}</p>
% endif
% if each.details:
<details><summary>Details</summary><pre tabindex="0" role="group" aria-label="Details">
% for line in each.details:
${line}
% endfor
</pre></details>
% endif
</dd></div>
% endfor
</dl>
</section>
% endif

% if costs:
<section class="card" aria-labelledby="costs">
<h2 id="costs">Cost</h2>
<p class="quiet">One execution of the case that moves the most bytes: the median, and the 10th to the 90th percentile. Times are this machine's; those of a stand-in for a device can be compared with each other, not with the device.</p>
${costs}
</section>
% endif

% if compared:
<section class="card" aria-labelledby="compared">
<h2 id="compared">Against an earlier run</h2>
<p>Compared with <code>${compared.path}</code>: ${compared.sentence}</p>
% if compared.elsewhere:
<p>It was measured in another environment, so times are hard to compare:</p>
<dl class="wide">
% for each in compared.elsewhere:
<div><dt>${each.name}</dt><dd>${each.value}</dd></div>
% endfor
</dl>
% endif
${compared.table}
</section>
% endif

<section class="card" aria-labelledby="environment">
<h2 id="environment">Environment</h2>
% if runtimes:
${runtimes}
% endif
<dl class="wide">
% for each in environment:
<div><dt>${each.name}</dt><dd>${each.value}</dd></div>
% endfor
</dl>
</section>

<section class="card" aria-labelledby="cases">
<h2 id="cases">All other cases</h2>
% if cases:
<details class="case">
<summary><h3>Cases that passed, were skipped, or have no reference</h3></summary>
${cases}
</details>
% else:
<p>None.</p>
% endif
</section>
</main>
</body>
</html>
