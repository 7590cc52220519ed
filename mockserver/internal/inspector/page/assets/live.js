// The Calls page: the live list, the search and the panel. The server renders all rows; this
// script inserts them.

import { age, clockTime, load, localize, number, parse, plural } from './html.js'
import * as chart from './chart.js'
import * as search from './search.js'
import { copy, copyOf } from './copy.js'

const mostRows = 200
const mostMissing = 10_000
const workspace = document.getElementById('workspace')
const calls = document.getElementById('calls')
const conditions = document.getElementById('conditions')
const list = document.getElementById('list')
const panel = document.getElementById('panel')
const problem = document.getElementById('search-problem')
const range = document.getElementById('range')
const pauseButton = document.getElementById('pause')
const freshButton = document.getElementById('fresh')
const live = document.getElementById('live')
const liveText = document.getElementById('live-text')
const goneText = document.getElementById('gone')
const toast = document.getElementById('toast')
const tip = document.getElementById('tip')
const confirmation = document.getElementById('confirm-replay')

let rows = document.getElementById('rows')
let applied = list.querySelector('table').dataset.q // the search of the list
let stream = null
let position = calls.dataset.from // position from which the stream continues
let paused = false
let heldAt = '' // position where the list stopped to add and remove rows; '' if it is current
const missing = new Set() // orders of the rows that a held list lacks
let skipped = 0 // new calls that a held list lacks, without their orders
let open = panel.querySelector('[data-ref]')?.dataset.ref ?? ''

/* The stream. */

function query(q = applied) {
  const values = new URLSearchParams()
  if (q) values.set('q', q)
  return values
}

function connect() {
  stream?.close()
  if (calls.dataset.live !== 'yes') return say('off', 'Older calls')
  if (problem.textContent) return say('off', 'Not live')
  const values = query()
  values.set('from', heldAt || position)
  values.set('rows', [...rows.querySelectorAll('.row')].map((row) => row.dataset.order))
  if (heldAt) {
    values.set('held', 'yes')
    missing.clear() // the stream sends and counts them again
    skipped = 0
  }
  if (open) {
    values.set('call', open)
    values.set('seen', panel.querySelector('[data-change]')?.dataset.change ?? '0')
  }
  stream = new EventSource('/stream?' + values)
  stream.onopen = back
  stream.onmessage = (event) => {
    const before = position
    position = event.lastEventId
    apply(JSON.parse(event.data), before)
  }
  stream.onerror = () => lost(refused ? 'This page is not live because too many pages are open. Close one of them.' : '')
}

function say(state, text = { live: 'Live', paused: 'Paused' }[state]) {
  if (live.dataset.state === state && liveText.textContent === text) return
  live.dataset.state = state
  liveText.textContent = text
}

/* Connection loss. */

let lostAt = null
let tries = 0
let refused = false // the server responds but refuses the stream
let retrying = null

// lost reports a lost connection and retries with increasing delay.
function lost(why = '') {
  stream?.close()
  stream = null
  lostAt ??= new Date()
  say('lost', 'Not live')
  const text = why || `The collector has not responded since ${clockTime(lostAt, false)}.`
  if (goneText.firstChild?.textContent !== text) goneText.replaceChildren(text, document.createElement('span'))
  goneText.lastChild.setAttribute('aria-hidden', 'true') // screen readers ignore the counter
  goneText.className = 'gone'
  goneText.hidden = false
  const wait = Math.min(++tries, 5)
  goneText.lastChild.textContent = ` Retrying every ${plural(wait, 'second', 'seconds')} (${plural(tries, 'attempt', 'attempts')}).`
  clearTimeout(retrying)
  retrying = setTimeout(retry, wait * 1000)
}

async function retry() {
  if (document.hidden) return
  try {
    await load('/suggest') // redirects to the login page if the session has ended
    refused = true
  } catch {
    refused = false
    return lost()
  }
  connect()
}

function back() {
  say(paused ? 'paused' : 'live')
  tries = 0
  refused = false
  clearTimeout(retrying)
  if (!lostAt) return
  const now = new Date()
  goneText.replaceChildren(`The collector has responded again since ${clockTime(now, false)}. It was unreachable for ${age((now - lostAt) / 1000)}.`)
  goneText.classList.add('is-back')
  lostAt = null
  setTimeout(() => { if (!lostAt) goneText.hidden = true }, 8000)
}

// tell shows a temporary message.
let telling = null
function tell(text, failed = false) {
  toast.textContent = text
  toast.classList.toggle('is-failed', failed)
  clearTimeout(telling)
  telling = setTimeout(() => { toast.textContent = '' }, 6000)
}

const noAnswer = 'The collector did not respond. Try again later.'

// Hidden pages close their stream, because browsers limit connections.
let asleep = null
document.addEventListener('visibilitychange', () => {
  clearTimeout(asleep)
  if (document.hidden) {
    asleep = setTimeout(() => { stream?.close(); stream = null }, 10_000)
  } else if (!stream) {
    connect()
  }
})

/* Frames. */

function apply(frame, before) {
  chart.update(frame.now, frame.seconds) // no later frame repeats these seconds
  if (frame.reset) { // a list that is loading continues with a new stream, which checks again
    if (!asking) refresh()
    return
  }
  if (frame.counts) count(frame.counts)
  if (frame.call && open && !loading) show(open).catch(() => {}) // the stream reports a lost connection
  const hold = isUsed()
  if (heldAt && !hold && !asking) refresh(applied, { unless: isUsed })
  const fresh = []
  for (const row of [...parse((frame.rows ?? []).map((r) => r.html).join('')).children]) {
    const old = rowOf(row.dataset.order)
    if (old) replace(old, row)
    else fresh.push(row)
  }
  const gone = (frame.gone ?? []).map(rowOf).filter(Boolean)
  if (hold || heldAt) {
    for (const row of gone) row.classList.add('is-gone')
    for (const order of [...frame.missing ?? [], ...fresh.map((row) => Number(row.dataset.order))]) if (missing.size < mostMissing) missing.add(order)
    skipped += frame.skipped ?? 0
    showMissing()
    if (!heldAt && (missing.size + skipped > 0 || gone.length)) {
      heldAt = before
      connect() // the stream continues with the listed rows
    }
  } else {
    for (const row of gone) row.remove()
    insert(fresh, frame.skipped ?? 0)
  }
  if (frame.arrived) announce(frame.arrived)
}

// On touch screens, a row remains hovered after a tap.
let touch = false
addEventListener('pointermove', (event) => { touch = event.pointerType === 'touch' }, { passive: true })

// isUsed reports whether the list must not move.
function isUsed() {
  const selection = document.getSelection()
  return paused || open !== '' || list.scrollTop > 60 || rows.contains(document.activeElement) ||
    rows.matches(touch ? ':active' : ':hover') || (!selection.isCollapsed && list.contains(selection.anchorNode))
}

function showMissing() {
  freshButton.hidden = missing.size + skipped === 0
  freshButton.textContent = `Show ${plural(missing.size + skipped, 'new call', 'new calls')}`
}

function rowOf(order) { return rows.querySelector(`[data-order="${Number(order)}"]`) }

function replace(old, row) {
  dress(row)
  const focused = old.contains(document.activeElement)
  if (focused) row.querySelector('a').tabIndex = 0
  old.replaceWith(row)
  if (focused) row.querySelector('a').focus()
  if (hinted === old) hint(row)
}

// insert adds new rows, and a note about omitted rows.
function insert(fresh, skipped) {
  if (fresh.length === 0 && skipped === 0) return
  begin()
  if (skipped > 0) {
    const gap = document.getElementById('gap').content.firstElementChild.cloneNode(true)
    gap.firstElementChild.textContent = `${plural(skipped, 'more call', 'more calls')} arrived and ${skipped === 1 ? 'was' : 'were'} not listed at once. Search again to list the newest calls.`
    gap.dataset.order = fresh.length ? Number(fresh.at(-1).dataset.order) - 0.5 : Number.MAX_SAFE_INTEGER
    place(gap)
  }
  for (const row of fresh.reverse()) {
    dress(row)
    row.classList.toggle('is-new', fresh.length < 10)
    place(row)
  }
  while (rows.children.length > mostRows && !rows.lastElementChild.contains(document.activeElement)) rows.lastElementChild.remove()
  settle()
}

function place(row) {
  const order = Number(row.dataset.order)
  for (let at = rows.firstElementChild; at; at = at.nextElementSibling) {
    if (Number(at.dataset.order) < order) return rows.insertBefore(row, at)
  }
  rows.append(row)
}

// dress prepares a row for the list.
function dress(row) {
  row.classList.toggle('is-open', row.dataset.ref === (loading || open))
  const link = row.querySelector('a')
  if (link) link.tabIndex = -1
  if (!row.querySelector('.others')) return
  const states = row.querySelector('.c-state')
  states.dataset.states = states.title
  states.removeAttribute('title')
}

// begin replaces the first-run instructions with the list.
function begin() {
  document.getElementById('first')?.remove()
  list.hidden = false
}

// settle shows a note for an empty list and makes a row focusable.
function settle() {
  document.getElementById('nothing').hidden = rows.children.length > 0
  const replay = document.getElementById('replay-all')
  if (replay) replay.hidden = rows.children.length === 0
  if (!rows.querySelector('a[tabindex="0"]')) {
    const link = rows.querySelector('a')
    if (link) link.tabIndex = 0
  }
}

function count({ html, facets }) {
  document.getElementById('count').replaceChildren(parse(html))
  for (const facet of conditions.querySelectorAll('[data-facet]')) facet.textContent = number(facets[facet.dataset.facet])
  conditions.classList.remove('is-outdated')
}

// announce informs screen readers at most every 10 seconds.
let unannounced = 0
let announced = 0
function announce(arrived) {
  unannounced += arrived
  if (Date.now() - announced < 10_000) return
  announced = Date.now()
  document.getElementById('announce').textContent = plural(unannounced, 'new call', 'new calls')
  unannounced = 0
}

/* The list as a whole. */

let asking = null

// refresh loads the list of a search and reports whether it succeeded. It drops the response if
// unless returns true.
async function refresh(q = applied, { typing = false, unless = () => false } = {}) {
  asking?.abort()
  const mine = asking = new AbortController()
  busy(list, true)
  let answer = null
  try {
    answer = await load('/?' + query(q), { signal: mine.signal })
  } catch {
    if (mine === asking) tell(noAnswer)
  }
  if (mine !== asking) return false // a later refresh has started
  asking = null
  busy(list, false)
  if (!answer || unless()) return false
  const table = answer.content.querySelector('table')
  if (answer.ok && !table) { // invalid search
    if (!(typing && search.isOpen())) problem.replaceChildren(answer.content)
    return false
  }
  if (!answer.ok) return false
  problem.replaceChildren()
  const focused = document.activeElement
  for (const part of [...answer.content.querySelectorAll('[data-part]')]) {
    update(document.getElementById(part.dataset.part), part)
    part.remove()
  }
  if (focused !== document.activeElement) search.focus() // the focused element was removed
  hint(null)
  list.replaceChildren(answer.content)
  rows = document.getElementById('rows')
  applied = table.dataset.q
  position = table.dataset.from
  calls.dataset.live = 'yes'
  pauseButton.hidden = false
  list.scrollTop = 0
  heldAt = ''
  missing.clear()
  skipped = 0
  showMissing()
  if (applied || Number(table.dataset.total) > 0) begin()
  for (const row of rows.children) dress(row)
  settle()
  connect()
  return true
}

// update replaces the content of an element if it differs, because replacing a link ends a click on
// it. The counts of facets stay, invisible, until the stream sends new ones: the links must not move.
function update(element, content) {
  for (const facet of content.querySelectorAll('[data-facet]')) {
    facet.textContent = element.querySelector(`[data-facet="${facet.dataset.facet}"]`).textContent
  }
  if (element.innerHTML === content.innerHTML) return
  element.replaceChildren(...content.childNodes)
  element.classList.add('is-outdated')
}

// busy marks an element as loading.
function busy(element, on) {
  element.classList.toggle('is-busy', on)
  element.setAttribute('aria-busy', String(on))
}

freshButton.addEventListener('click', () => {
  pause(false)
  refresh()
  list.focus()
})

pauseButton.hidden = calls.dataset.live !== 'yes'
pauseButton.addEventListener('click', () => pause(!paused))

function pause(on) {
  paused = on
  pauseButton.setAttribute('aria-pressed', String(on))
  pauseButton.querySelector('span').textContent = on ? 'Resume' : 'Pause'
  pauseButton.querySelector('use').setAttribute('href', on ? '#i-play' : '#i-pause')
  if (live.dataset.state !== 'lost') say(on ? 'paused' : 'live')
}

/* The search. */

let session = false // typing updates the current history entry

// look runs a search and adds a history entry.
async function look(q, typing = false) {
  const before = applied
  if (!(await refresh(q, { typing }))) return
  if (applied !== before) record(!(typing && session))
  session = typing
}

function record(push) {
  session = false
  history[push ? 'pushState' : 'replaceState']({ q: applied, call: open }, '', address())
}

document.addEventListener('click', (event) => {
  const link = event.target.closest('a[data-search], .facts a[href^="/?"]')
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return
  event.preventDefault()
  range.open = false
  const q = new URL(link.href).searchParams.get('q') ?? ''
  search.set(q)
  if (open && !wide.matches) close()
  look(q)
})

// From and until are in the local time zone.
document.addEventListener('submit', (event) => {
  const form = event.target.closest('#between')
  if (!form) return
  event.preventDefault()
  let q = form.elements.q.value
  for (const name of ['since', 'until']) {
    const value = form.elements[name].value
    if (value) q += ` ${name}:${new Date(value).toISOString()}`
  }
  range.open = false
  search.set(q.trim())
  look(q)
})

document.addEventListener('click', (event) => {
  if (range.open && !range.contains(event.target)) range.open = false
  for (const menu of document.querySelectorAll('.copy-as[open]')) if (!menu.contains(event.target)) menu.open = false
})

function address() {
  const values = query()
  if (open) values.set('call', open)
  return values.size ? '/?' + values : '/'
}

/* Panel. */

const wide = matchMedia('(min-width: 901px)')

let asked = 0 // sequence number of panel requests, to ignore late responses

let selections = 0 // number of calls that were selected or closed

let loading = '' // call that replaces the open one

async function show(ref) {
  const mine = ++asked
  const { content } = await load(`/calls/${ref}?${query()}`)
  if (mine === asked) put(content, ref)
}

// put replaces the panel. If it showed the same call, it keeps the focus, the position and the
// open details.
function put(content, ref) {
  const same = ref === open
  open = ref
  const focused = same && panel.contains(document.activeElement) ? keyOf(document.activeElement) : ''
  const opened = same ? [...panel.querySelectorAll('details[open]')].map(keyOf) : []
  const scrolled = same ? panel.scrollTop : 0
  panel.replaceChildren(content)
  for (const details of panel.querySelectorAll('details')) details.open = opened.includes(keyOf(details))
  panel.hidden = false
  workspace.classList.add('has-panel')
  panel.scrollTop = scrolled
  if (focused) [...panel.querySelectorAll('a, button, summary, [tabindex]')].find((e) => keyOf(e) === focused)?.focus({ preventScroll: true })
  highlight()
  hint(focusedRow())
  if (!same) replayed = null
  report()
}

// report shows the result of a replay as soon as the panel contains it.
let replayed = null // destination and its latest attempt before the replay
function report() {
  if (!replayed || latestAttempt(replayed.destination) === replayed.latest) return
  const card = panel.querySelector(`[data-key="${CSS.escape('replay ' + replayed.destination)}"]`)?.closest('.destination')
  if (!card || card.matches('.is-pending')) return
  tell(`${replayed.destination}: ${card.querySelector('.state').textContent}`, !card.matches('.is-delivered'))
  replayed = null
}

const latestAttempt = (destination) => panel.querySelector(`.attempt[data-key^="${CSS.escape(destination + ' ')}"]`)?.dataset.key

// highlight marks the row of the call that is open or loading.
function highlight() {
  for (const row of rows.querySelectorAll('.row')) row.classList.toggle('is-open', row.dataset.ref === (loading || open))
}

// keyOf identifies an element of the panel across updates.
const keyOf = (e) => e.dataset.key ?? e.getAttribute('href') ?? e.ariaLabel ?? 'summary of ' + e.parentElement.dataset.key

async function select(ref, push) {
  selections++
  clearTimeout(browsing)
  loading = ref
  highlight()
  busy(panel, true)
  try {
    await show(ref)
  } catch {
    tell(noAnswer, true)
  }
  if (loading !== ref) return // another call was selected
  loading = ''
  highlight()
  busy(panel, false)
  record(push && open === ref)
  if (open !== ref) return
  if (!wide.matches) panel.focus()
  connect()
}

function close() {
  const row = rows.querySelector('.is-open')
  clearTimeout(browsing)
  open = ''
  loading = ''
  asked++
  selections++
  busy(panel, false)
  panel.hidden = true
  panel.replaceChildren()
  workspace.classList.remove('has-panel')
  row?.classList.remove('is-open')
  ;(row?.querySelector('a') ?? list).focus()
  connect()
}

list.addEventListener('click', (event) => {
  const row = event.target.closest('.row')
  const elsewhere = event.ctrlKey || event.metaKey || event.shiftKey || event.button !== 0
  if (!row || elsewhere || event.target.closest('.who') || !document.getSelection().isCollapsed) return
  event.preventDefault()
  focusRow(row)
  select(row.dataset.ref, open === '')
})

function focusRow(row) {
  for (const link of rows.querySelectorAll('a[tabindex="0"]')) link.tabIndex = -1
  const link = row.querySelector('a')
  link.tabIndex = 0
  link.focus({ preventScroll: true })
  row.scrollIntoView({ block: 'nearest' })
}

list.addEventListener('keydown', (event) => {
  const all = [...rows.querySelectorAll('.row')]
  const at = all.indexOf(document.activeElement.closest('.row'))
  const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: all.length - 1 }[event.key]
  if (to === undefined || event.altKey || event.ctrlKey || event.metaKey) return
  event.preventDefault()
  move(all, to)
})

// move focuses the row at an index. If a call is open, it opens the call of the row after a pause.
let browsing = null
function move(all, to) {
  const row = all[Math.min(Math.max(to, 0), all.length - 1)]
  if (!row) return
  focusRow(row)
  if (!open || !wide.matches) return
  clearTimeout(browsing)
  browsing = setTimeout(() => select(row.dataset.ref, false), 120)
}

document.addEventListener('keydown', (event) => {
  if (event.key !== 'Escape' || event.defaultPrevented) return
  hint(null)
  const menu = document.querySelector('.copy-as[open], .range[open]')
  if (menu) {
    menu.open = false
    menu.querySelector('summary').focus()
    return
  }
  if (!open || event.target.matches('input, select, textarea') || document.querySelector('#help:popover-open, dialog[open]')) return
  close()
  record(false)
})

panel.addEventListener('click', (event) => {
  if (!event.target.closest('[data-close]')) return
  event.preventDefault()
  close()
  record(false)
})

panel.addEventListener('submit', async (event) => {
  const form = event.target.closest('[data-panel]')
  if (!form) return
  event.preventDefault()
  if (panel.classList.contains('is-busy')) return // a double click acts once
  const body = new URLSearchParams([...query(), ...new FormData(form)])
  const [of, mine] = [open, ++asked]
  const destination = form.elements.destination.value
  const replay = { destination, latest: latestAttempt(destination) }
  busy(panel, true)
  try {
    const { content } = await load(form.action, { method: 'POST', body })
    const notice = content.querySelector('[data-notice]')
    if (notice) tell(notice.textContent, 'failed' in notice.dataset)
    if (notice && !('failed' in notice.dataset) && of === open) replayed = replay
    if (mine === asked) put(content, of)
    else report()
  } catch {
    tell(noAnswer, true)
  }
  busy(panel, false)
})

addEventListener('popstate', async (event) => {
  const { q = '', call = '' } = event.state ?? {}
  session = false
  if (!call && (open || loading)) close()
  const mine = selections
  if (q !== applied || asking) {
    search.set(q)
    if (!(await refresh(q))) return
  }
  if (call && call !== open && mine === selections) select(call, false) // stores the applied search in the history entry, so the list must be loaded first
})

/* All destinations of a row, on hover and focus. */

let hinted = null

function hint(row) {
  hinted?.querySelector('a').removeAttribute('aria-describedby')
  const states = row?.querySelector('[data-states]')
  hinted = states ? row : null
  tip.togglePopover(Boolean(states))
  if (!states) return
  tip.textContent = states.dataset.states
  row.querySelector('a').setAttribute('aria-describedby', 'tip')
  const { left, top, bottom } = states.getBoundingClientRect()
  tip.style.left = `${Math.min(left, innerWidth - tip.offsetWidth - 8)}px`
  tip.style.top = `${bottom + tip.offsetHeight < innerHeight ? bottom : top - tip.offsetHeight}px`
}

const focusedRow = () => {
  const row = rows.querySelector('a:focus-visible')?.closest('.row')
  return row?.dataset.ref === open ? null : row // the panel lists the destinations
}
list.addEventListener('pointerover', (event) => {
  if (event.pointerType !== 'mouse') return
  const row = event.target.closest('.c-state')?.parentElement ?? focusedRow()
  if (row !== hinted) hint(row)
})
list.addEventListener('pointerleave', () => hint(focusedRow()))
list.addEventListener('focusin', () => hint(focusedRow()))
list.addEventListener('focusout', () => hint(null))
list.addEventListener('scroll', () => hint(null), { passive: true })

/* Keys. */

// step moves to the next or previous call.
function step(by) {
  const all = [...rows.querySelectorAll('.row')]
  const at = all.findIndex((row) => row.contains(document.activeElement) || (open && row.dataset.ref === open && !rows.contains(document.activeElement)))
  move(all, at === -1 ? 0 : at + by)
}

// chosen opens the focused call and reports whether it is open.
async function chosen() {
  const ref = document.activeElement.closest('.row')?.dataset.ref ?? open
  if (!ref) tell('Select a call first (j, k).')
  else if (ref !== open) await select(ref, open === '')
  return ref !== '' && ref === open
}

// The dialog has the focus instead of its button: a space must not confirm.
confirmation.addEventListener('keydown', (event) => {
  if (event.key !== 'Enter' || event.target !== confirmation) return
  event.preventDefault()
  confirmation.close('replay')
})

async function replayChosen() {
  if (!(await chosen())) return
  const form = panel.querySelector('.destination.is-failed [data-panel]')
  if (!form) return tell('This call has not failed at any destination.')
  const ref = open
  const destination = form.elements.destination.value
  document.getElementById('confirm-replay-to').textContent = destination
  confirmation.returnValue = ''
  confirmation.onclose = () => {
    if (confirmation.returnValue !== 'replay' || open !== ref) return
    // The panel may have been updated while the dialog was open.
    const forms = [...panel.querySelectorAll('.destination.is-failed [data-panel]')]
    const current = forms.find((f) => f.elements.destination.value === destination)
    if (current) current.requestSubmit()
    else tell(`The call no longer counts as failed at ${destination}.`)
  }
  confirmation.showModal()
  confirmation.focus()
}

async function copyChosen() {
  if (!(await chosen())) return
  const link = panel.querySelector('[href$="/as/curl"]')
  if (!link) return tell('This call cannot be copied as curl.')
  try {
    await copy(await copyOf(link))
    tell('Copied as curl.')
  } catch (error) {
    tell(error instanceof TypeError ? noAnswer : error.message)
  }
}

/* Ages. */

let today = new Date().toDateString()
setInterval(() => {
  if (document.hidden) return
  const now = Date.now()
  if (today !== (today = new Date().toDateString())) localize(list)
  for (const place of list.querySelectorAll('[data-rel]')) {
    if (!place.checkVisibility({ contentVisibilityAuto: true })) continue // not visible
    const text = age((now - (place.since ??= Date.parse(place.dataset.rel))) / 1000)
    if (place.textContent !== text) place.textContent = text
  }
}, 1000)

/* Initialization. */

chart.start(document.getElementById('charts'))
search.start(look)
for (const row of rows.children) dress(row)
if (rows.children.length) settle()
localize(panel)
history.replaceState({ q: applied, call: open }, '')
connect()
addKeys({ j: () => step(1), k: () => step(-1), r: replayChosen, c: copyChosen })
