const all = [...document.querySelectorAll('[data-p]')];

// Light up what stems from a place, and bring the first of it into view in every section but the clicked one.
function show(place, from) {
  for (const e of all) e.classList.toggle('on', place !== '' && e.dataset.p.split(' ').includes(place));
  for (const section of document.querySelectorAll('section')) {
    if (from && section.contains(from)) continue;
    const first = section.querySelector('.on'), pane = section.lastElementChild;
    if (!first) continue;
    const at = first.getBoundingClientRect(), here = pane.getBoundingClientRect();
    pane.scrollTop += at.top - here.top - (here.height - at.height) / 2;
  }
}

document.addEventListener('click', e => {
  const t = e.target.closest('[data-p]');
  if (t) show(t.classList.contains('on') && e.detail > 1 ? '' : t.dataset.p.split(' ')[0], t);
});
document.addEventListener('keydown', e => { if (e.key === 'Escape') show('') });
