// Shared by all pages: tabs, copying, forms and live sections. Every page works without it.

import { copy, copyOf } from './copy.js'
import { load, localize, plural } from './html.js'

document.documentElement.classList.add('scripted')
localize(document)

// Tabs (ARIA pattern).
for (const tabs of document.querySelectorAll('[data-tabs]')) {
  const list = [...tabs.querySelectorAll('[role=tab]')]
  const select = (tab) => {
    for (const other of list) {
      const chosen = other === tab
      other.setAttribute('aria-selected', String(chosen))
      other.tabIndex = chosen ? 0 : -1
      document.getElementById(other.getAttribute('aria-controls')).toggleAttribute('data-later', !chosen)
    }
  }
  tabs.addEventListener('click', (event) => {
    const tab = event.target.closest('[role=tab]')
    if (tab) select(tab)
  })
  tabs.addEventListener('keydown', (event) => {
    const at = list.indexOf(event.target)
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: list.length - 1 }[event.key]
    if (at < 0 || to === undefined) return
    event.preventDefault()
    const tab = list[(to + list.length) % list.length]
    select(tab)
    tab.focus()
  })
}

// Copy buttons: the code next to the button, or the target of its link. A status element also
// contains the result, because screen readers do not announce the changed text of a button.
document.addEventListener('click', async (event) => {
  const button = event.target.closest('[data-copy], [data-copy-from], [data-copy-link]')
  if (!button || event.ctrlKey || event.metaKey || event.shiftKey) return
  event.preventDefault()
  const label = button.querySelector('span')
  label.dataset.name ??= label.textContent
  try {
    await copy('copy' in button.dataset ? button.parentElement.querySelector('code').textContent : await copyOf(button))
    label.textContent = 'Copied'
  } catch {
    label.textContent = 'Copy failed'
  }
  const result = document.getElementById('copied')
  result.textContent = label.textContent
  setTimeout(() => {
    label.textContent = label.dataset.name
    result.textContent = ''
  }, 1500)
})

// Destination form.
const destination = document.querySelector('[data-destination]')
if (destination) {
  const unused = () => destination.querySelector('[data-unused]')
  const add = destination.querySelector('[data-add-webhook]')
  if (add) add.hidden = !unused() // a configured destination has no fields
  add?.addEventListener('click', () => {
    const webhook = unused()
    webhook.removeAttribute('data-unused')
    webhook.querySelector('input').focus()
    add.hidden = !unused()
  })
  const choose = (name, value) => {
    const choice = destination.querySelector(`[name="${name}"][value="${value}"]`)
    if (choice) choice.checked = true
  }
  destination.addEventListener('input', (event) => {
    if (event.target.name === 'sources') choose('allSources', 'false')
    if (event.target.name === 'sharedSecret' && !destination.querySelector('[value="rotate"]:checked')) choose('secretDo', 'replace')
  })
  // An edited field loses its error. Saving validates it again.
  destination.addEventListener('input', (event) => {
    const control = event.target.closest('.has-problem')
    if (!control) return
    control.classList.remove('has-problem')
    for (const part of control.querySelectorAll('[id]')) {
      part.removeAttribute('aria-invalid')
      document.querySelector(`#summary a[href="#${part.id}"]`)?.closest('li').remove()
    }
    for (const problem of control.querySelectorAll('.problem')) problem.remove()
    const summary = document.getElementById('summary')
    const left = summary?.querySelectorAll('li').length
    if (left) summary.querySelector('h2').textContent = left === 1 ? 'One field is invalid' : `${left} fields are invalid`
    else summary?.remove()
  })
  const ask = async (event) => {
    event.preventDefault()
    const button = event.currentTarget
    const result = document.getElementById(button.dataset.result)
    button.disabled = true
    result.textContent = 'Sending…'
    try {
      const { content } = await load(button.formAction, { method: 'POST', body: new URLSearchParams(new FormData(destination)) })
      result.replaceChildren(content)
    } catch {
      result.textContent = 'The collector did not respond.'
    }
    button.disabled = false
  }
  for (const button of destination.querySelectorAll('[data-result]')) button.addEventListener('click', ask)
  document.getElementById('summary')?.focus()
}

// Prevents a second submit of a form before the response arrives.
let submitted = new WeakSet()
document.addEventListener('submit', (event) => {
  if (event.defaultPrevented || event.target.method !== 'post') return
  if (submitted.has(event.target)) event.preventDefault()
  submitted.add(event.target)
})
addEventListener('pageshow', () => { submitted = new WeakSet() }) // also after Back

// Number of calls in a replay.
for (const form of document.querySelectorAll('[data-replay]')) {
  const button = form.querySelector('[data-label]')
  const sum = () => {
    let calls = 0
    for (const box of form.querySelectorAll('[data-calls]:checked')) calls += Number(box.dataset.calls)
    button.textContent = `${button.dataset.label} ${plural(calls, 'call', 'calls')}`
    button.disabled = calls === 0
  }
  form.addEventListener('change', sum)
  sum()
}

// Reloads live sections unless the user is working in them. The section names its URL if the
// page is the response to a form.
const figures = document.querySelector('[data-refresh]')
if (figures) {
  const busy = () => figures.contains(document.activeElement) || figures.querySelector('details[open]') || !document.getSelection().isCollapsed
  setInterval(async () => {
    if (document.hidden || busy()) return
    try {
      const { ok, content } = await load(figures.dataset.refresh || location.href)
      if (ok && !busy()) figures.replaceChildren(content)
    } catch { /* retried in two seconds */ }
  }, 2000)
}

if (document.getElementById('workspace')) import('./live.js')
