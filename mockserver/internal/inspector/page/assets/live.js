// The Calls page: the live list, the search and the panel. The server renders all rows; this
// script inserts them.

import { age, clockTime, load, localize, number, parse, plural } from './html.js'
import * as chart from './chart.js'
import * as search from './search.js'
import { copy, copyOf } from './copy.js'

const mostRows = 200
const workspace = document.getElementById('workspace')
const calls = document.getElementById('calls')
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
const confirmation = document.getElementById('confirm-replay')

let rows = document.getElementById('rows')
let applied = list.querySelector('table').dataset.q // the search of the list
let stream = null
let position = calls.dataset.from // position from which the stream continues
let paused = false
let held = 0 // new calls that are not listed because the list is paused or scrolled
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
  values.set('from', position)
  if (open) {
    values.set('call', open)
    values.set('seen', panel.querySelector('[data-change]')?.dataset.change ?? '0')
  }
  stream = new EventSource('/stream?' + values)
  stream.onopen = back
  stream.onmessage = (event) => {
    position = event.lastEventId
    apply(JSON.parse(event.data))
  }
  stream.onerror = () => lost(refused ? 'The collector has no free stream for this page. Too many pages may be open.' : '')
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
  goneText.replaceChildren(`The collector responds again since ${clockTime(now, false)}. It was unreachable for ${age((now - lostAt) / 1000)}.`)
  goneText.classList.add('is-back')
  lostAt = null
  setTimeout(() => { if (!lostAt) goneText.hidden = true }, 8000)
}

// tell shows a temporary message.
let telling = null
function tell(text) {
  toast.textContent = text
  toast.hidden = false
  clearTimeout(telling)
  telling = setTimeout(() => { toast.hidden = true }, 4000)
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

function apply(frame) {
  if (frame.reset) return refresh()
  chart.update(frame.now, frame.seconds)
  if (frame.counts) count(frame.counts.matched, frame.counts.total)
  if (frame.call && open) show(open).catch(() => {}) // the stream reports a lost connection
  for (const order of frame.gone ?? []) rowOf(order)?.remove()
  const holding = paused || list.scrollTop > 60
  const fresh = []
  for (const row of [...parse((frame.rows ?? []).map((r) => r.html).join('')).children]) {
    const old = rowOf(row.dataset.order)
    if (old) replace(old, row)
    else fresh.push(row)
  }
  const arrived = frame.arrived ?? 0
  if (holding) hold(arrived)
  else insert(fresh, frame.skipped ?? 0)
  if (arrived) announce(arrived)
}

function rowOf(order) { return rows.querySelector(`[data-order="${Number(order)}"]`) }

function replace(old, row) {
  dress(row)
  const focused = old.contains(document.activeElement)
  if (focused) row.querySelector('a').tabIndex = 0
  old.replaceWith(row)
  if (focused) row.querySelector('a').focus()
}

// insert adds new rows, and a note about omitted rows.
function insert(fresh, skipped) {
  if (fresh.length === 0 && skipped === 0) return
  begin()
  if (skipped > 0) {
    const gap = document.getElementById('gap').content.firstElementChild.cloneNode(true)
    gap.firstElementChild.textContent = `${plural(skipped, 'more call', 'more calls')} arrived too fast to list. Pause to view them.`
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
  row.classList.toggle('is-open', row.dataset.ref === open && open !== '')
  const link = row.querySelector('a')
  if (link) link.tabIndex = -1
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

function hold(arrived) {
  held += arrived
  freshButton.hidden = held === 0
  freshButton.textContent = `Show ${plural(held, 'new call', 'new calls')}`
}

function count(matched, total) {
  const line = document.getElementById('count')
  const bold = document.createElement('b')
  if (!applied) {
    bold.textContent = plural(total, 'call', 'calls')
    line.replaceChildren(bold)
    return
  }
  bold.textContent = number(matched)
  const hidden = document.createElement('span')
  hidden.className = 'hidden-count'
  hidden.textContent = total > matched ? ` · ${number(total - matched)} hidden by search` : ''
  line.replaceChildren(bold, ` of ${plural(total, 'call', 'calls')} ${matched === 1 ? 'matches' : 'match'}`, hidden)
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

// refresh loads the list of a search and reports whether it succeeded.
async function refresh(q = applied, typing = false) {
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
  busy(list, false)
  if (!answer) return false
  const table = answer.content.querySelector('table')
  if (answer.ok && !table) { // invalid search
    if (!(typing && search.isOpen())) problem.replaceChildren(answer.content)
    return false
  }
  if (!answer.ok) return false
  problem.replaceChildren()
  const focused = document.activeElement
  for (const part of [...answer.content.querySelectorAll('[data-part]')]) {
    document.getElementById(part.dataset.part).replaceChildren(...part.childNodes)
    part.remove()
  }
  if (focused !== document.activeElement) search.focus() // the focused element was removed
  list.replaceChildren(answer.content)
  rows = document.getElementById('rows')
  applied = table.dataset.q
  position = table.dataset.from
  calls.dataset.live = 'yes'
  pauseButton.hidden = false
  list.scrollTop = 0
  held = 0
  hold(0)
  if (applied || Number(table.dataset.total) > 0) begin()
  count(Number(table.dataset.matched), Number(table.dataset.total))
  for (const row of rows.children) dress(row)
  settle()
  connect()
  return true
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

list.addEventListener('scroll', () => {
  if (held > 0 && !paused && list.scrollTop === 0) refresh()
}, { passive: true })

pauseButton.hidden = calls.dataset.live !== 'yes'
pauseButton.addEventListener('click', () => {
  pause(!paused)
  if (!paused && held > 0) refresh()
})

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
  if (!(await refresh(q, typing))) return
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

async function show(ref) {
  open = ref
  const mine = ++asked
  const values = query()
  const { content } = await load(`/calls/${ref}?${values}`)
  if (mine === asked) put(content)
}

function put(content) {
  const kept = panel.querySelector(`[data-ref="${open}"]`) !== null
  const notice = kept ? panel.querySelector('.notice') : null
  const expanded = kept ? [...panel.querySelectorAll('.attempt')].map((d) => d.open).reverse() : []
  const scrolled = kept ? panel.scrollTop : 0
  panel.replaceChildren(content)
  // Attempts are listed newest first; existing ones are at the end.
  ;[...panel.querySelectorAll('.attempt')].reverse().forEach((d, i) => { d.open = expanded[i] ?? false })
  if (!panel.querySelector('.notice')) note(notice)
  panel.hidden = false
  workspace.classList.add('has-panel')
  panel.scrollTop = scrolled
  for (const row of rows.querySelectorAll('.row')) row.classList.toggle('is-open', row.dataset.ref === open)
}

// note shows the result of an action until another call is opened.
function note(notice) {
  if (notice) panel.querySelector('.panel-head')?.after(notice)
}

async function select(ref, push) {
  for (const row of rows.querySelectorAll('.row')) row.classList.toggle('is-open', row.dataset.ref === ref)
  busy(panel, true)
  const before = open
  try {
    await show(ref)
  } catch {
    if (open === ref) open = before
    tell(noAnswer)
  }
  busy(panel, false)
  if (open !== ref) return
  record(push)
  if (!wide.matches) panel.focus()
  connect()
}

function close() {
  const row = rows.querySelector('.is-open')
  open = ''
  asked++
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
  const row = all[Math.min(Math.max(to, 0), all.length - 1)]
  if (!row) return
  focusRow(row)
  if (open && wide.matches) browse(row.dataset.ref)
})

let browsing = null
function browse(ref) {
  clearTimeout(browsing)
  browsing = setTimeout(() => select(ref, false), 120)
}

document.addEventListener('keydown', (event) => {
  if (event.key !== 'Escape' || event.defaultPrevented) return
  const menu = document.querySelector('.copy-as[open], .range[open]')
  if (menu) {
    menu.open = false
    menu.querySelector('summary').focus()
    return
  }
  if (!open || event.target.matches('input, select, textarea') || document.querySelector('[popover]:popover-open, dialog[open]')) return
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
  const body = new URLSearchParams([...query(), ...new FormData(form)])
  const button = form.querySelector('button')
  const of = open
  const mine = ++asked
  button.disabled = true
  busy(panel, true)
  try {
    const { content } = await load(form.action, { method: 'POST', body })
    if (mine === asked) put(content)
    else if (open === of) {
      panel.querySelector('.notice')?.remove()
      note(content.querySelector('.notice'))
    }
    panel.querySelector('.notice')?.scrollIntoView({ block: 'nearest' })
  } catch {
    tell(noAnswer)
    button.disabled = false
  }
  busy(panel, false)
})

addEventListener('popstate', async (event) => {
  const { q = '', call = '' } = event.state ?? {}
  session = false
  if (call && call !== open) select(call, false)
  else if (!call && open) close()
  if (q === applied) return
  search.set(q)
  await refresh(q)
})

/* Keys. */

// step moves to the next or previous call.
function step(by) {
  const all = [...rows.querySelectorAll('.row')]
  const at = all.findIndex((row) => row.contains(document.activeElement) || (open && row.dataset.ref === open && !rows.contains(document.activeElement)))
  const row = all[at === -1 ? 0 : Math.min(Math.max(at + by, 0), all.length - 1)]
  if (!row) return
  focusRow(row)
  if (open && wide.matches) browse(row.dataset.ref)
}

// chosen opens the focused call and reports whether a call is open.
async function chosen() {
  const row = document.activeElement.closest('.row')
  if (row && row.dataset.ref !== open) await select(row.dataset.ref, open === '')
  if (!open) tell('Select a call first (j, k).')
  return open !== ''
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
    else tell(`The call has not failed at ${destination} anymore.`)
  }
  confirmation.showModal()
  confirmation.focus()
}

async function copyChosen() {
  if (!(await chosen())) return
  const link = panel.querySelector('[data-curl]')
  if (!link) return tell('This call cannot be copied as curl.')
  try {
    await copy(await copyOf(link))
    tell('Copied as curl.')
  } catch (error) {
    tell(error instanceof TypeError ? noAnswer : error.message)
  }
}

/* Ages. */

setInterval(() => {
  if (document.hidden) return
  const now = Date.now()
  for (const place of list.querySelectorAll('[data-rel]')) {
    if (!place.checkVisibility({ contentVisibilityAuto: true })) continue // not visible
    const text = age((now - (place.since ??= Date.parse(place.dataset.rel))) / 1000)
    if (place.textContent !== text) place.textContent = text
  }
}, 1000)

/* Initialization. */

chart.start(document.getElementById('charts'))
search.start(look)
addKeys({
  j: () => step(1),
  k: () => step(-1),
  '?': () => document.getElementById('help').togglePopover(),
})
addDeliberateKeys({ r: replayChosen, c: copyChosen })
for (const row of rows.children) dress(row)
if (rows.children.length) settle()
localize(panel)
history.replaceState({ q: applied, call: open }, '')
connect()
