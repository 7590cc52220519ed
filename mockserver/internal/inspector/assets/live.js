// The page of calls: the list that grows, its filter, and the call beside it. The
// server renders every row; this puts them in their places.

import { load, localize, number, parse, plural } from './html.js'
import * as chart from './chart.js'

const mostRows = 200
const workspace = document.getElementById('workspace')
const calls = document.getElementById('calls')
const list = document.getElementById('list')
const panel = document.getElementById('panel')
const filters = document.getElementById('filters')
const pauseButton = document.getElementById('pause')
const freshButton = document.getElementById('fresh')
const live = document.getElementById('live')
const liveText = document.getElementById('live-text')

let rows = document.getElementById('rows')
let stream = null
let position = calls.dataset.from // how far this page is, for the server to go on from
let paused = false
let held = 0 // calls that came and are not put into the list, as it is paused or scrolled
let open = panel.querySelector('[data-ref]')?.dataset.ref ?? ''

/* The stream. */

function query() {
  const values = new URLSearchParams()
  for (const [name, value] of new FormData(filters)) if (value) values.set(name, value)
  return values
}

function connect() {
  stream?.close()
  if (calls.dataset.live !== 'yes') return say('off', 'Older calls')
  const values = query()
  values.set('from', position)
  if (open) {
    values.set('call', open)
    values.set('seen', panel.querySelector('[data-change]')?.dataset.change ?? '0')
  }
  stream = new EventSource('/stream?' + values)
  stream.onopen = () => say(paused ? 'paused' : 'live')
  stream.onmessage = (event) => {
    position = event.lastEventId
    apply(JSON.parse(event.data))
  }
  stream.onerror = async () => {
    if (stream.readyState === EventSource.CONNECTING) return say('lost', 'Reconnecting')
    say('lost', 'Not live')
    setTimeout(reconnect, 5000)
  }
}

// reconnect finds out why the stream was refused, and tries again.
async function reconnect() {
  if (document.hidden) return
  try {
    await load('/?' + query(), { method: 'GET' }) // leaves for the login where the session has ended
  } catch { /* the server is not back yet */ }
  connect()
}

function say(state, text = { live: 'Live', paused: 'Paused' }[state]) {
  if (live.dataset.state === state && liveText.textContent === text) return
  live.dataset.state = state
  liveText.textContent = text
}

// A page that nobody sees needs no stream; browsers allow only a few.
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
  if (frame.call && open) show(open)
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

// insert puts new rows into their places, with a word where some were left out.
function insert(fresh, skipped) {
  if (fresh.length === 0 && skipped === 0) return
  begin()
  if (skipped > 0) {
    const gap = document.getElementById('gap').content.firstElementChild.cloneNode(true)
    gap.firstElementChild.textContent = `${plural(skipped, 'more call', 'more calls')} came faster than this list moves. Pause it to see them.`
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

// dress makes a row one of this list.
function dress(row) {
  row.classList.toggle('is-open', row.dataset.ref === open && open !== '')
  const link = row.querySelector('a')
  if (link) link.tabIndex = -1
}

// begin ends the first run: a call has come.
function begin() {
  document.getElementById('first')?.remove()
  list.hidden = false
}

// settle says so when there is nothing, and lets the keyboard into the list.
function settle() {
  document.getElementById('nothing').hidden = rows.children.length > 0
  document.getElementById('replay-all').hidden = rows.children.length === 0
  if (!rows.querySelector('a[tabindex="0"]')) {
    const link = rows.querySelector('a')
    if (link) link.tabIndex = 0
  }
}

function hold(arrived) {
  held += arrived
  freshButton.hidden = held === 0
  freshButton.textContent = `${plural(held, 'new call', 'new calls')} – show`
}

function count(matched, total) {
  const line = document.getElementById('count')
  const bold = document.createElement('b')
  if (query().size === 0) {
    bold.textContent = plural(total, 'call', 'calls')
    line.replaceChildren(bold)
    return
  }
  bold.textContent = number(matched)
  const hidden = document.createElement('span')
  hidden.className = 'hidden-count'
  hidden.textContent = total > matched ? ` · ${number(total - matched)} hidden by the filter` : ''
  line.replaceChildren(bold, ` of ${plural(total, 'call', 'calls')} ${matched === 1 ? 'matches' : 'match'}`, hidden)
}

// announce tells a screen reader now and then, not at each call.
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

// refresh asks for the list anew, and goes on from there.
async function refresh() {
  asking?.abort()
  asking = new AbortController()
  try {
    const { ok, content } = await load('/?' + query(), { signal: asking.signal })
    if (!ok) return
    list.replaceChildren(content)
  } catch {
    return // a later refresh has taken over, or the server is gone, which the stream tells
  }
  const table = list.querySelector('table')
  rows = document.getElementById('rows')
  position = table.dataset.from
  calls.dataset.live = 'yes'
  pauseButton.hidden = false
  list.scrollTop = 0
  held = 0
  hold(0)
  if (Number(table.dataset.total) > 0) begin()
  count(Number(table.dataset.matched), Number(table.dataset.total))
  for (const row of rows.children) dress(row)
  settle()
  connect()
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

/* The filter. */

let typing = null
calls.addEventListener('input', (event) => {
  if (event.target.form !== filters) return
  clearTimeout(typing)
  typing = setTimeout(filter, event.target.matches('select, [type="checkbox"]') ? 0 : 200)
})
filters.addEventListener('submit', (event) => {
  event.preventDefault()
  clearTimeout(typing)
  filter()
})
document.getElementById('clear').addEventListener('click', (event) => {
  event.preventDefault()
  fill(new URLSearchParams())
  filter()
  filters.elements.text.focus()
})

function filter() {
  mark()
  history.replaceState(null, '', address())
  refresh()
}

function fill(values) {
  for (const field of filters.elements) {
    if (field.type === 'checkbox') field.checked = values.get(field.name) === field.value
    else if (field.name) field.value = values.get(field.name) ?? ''
  }
  mark()
}

// mark shows which fields hide something, and where the links go from here.
function mark() {
  for (const field of filters.elements) {
    if (field.name) field.classList.toggle('is-set', field.type === 'checkbox' ? field.checked : field.value !== '')
  }
  document.getElementById('clear').hidden = query().size === 0
  document.getElementById('replay-all').href = '/replay?' + query()
}

function address() {
  const values = query()
  if (open) values.set('call', open)
  return values.size ? '/?' + values : '/'
}

/* The call beside the list. */

const wide = matchMedia('(min-width: 901px)')

async function show(ref) {
  open = ref
  const values = query()
  let content
  try {
    content = (await load(`/calls/${ref}?${values}`)).content
  } catch {
    return // the stream tells that the server is gone
  }
  if (open !== ref) return // another was chosen meanwhile
  put(content)
}

function put(content) {
  const kept = panel.querySelector(`[data-ref="${open}"]`) !== null
  const notice = kept ? panel.querySelector('.notice') : null
  const expanded = kept ? [...panel.querySelectorAll('details')].map((d) => d.open).reverse() : []
  const scrolled = kept ? panel.scrollTop : 0
  panel.replaceChildren(content)
  // Attempts stand newest first: those that were there are the last ones.
  ;[...panel.querySelectorAll('details')].reverse().forEach((d, i) => { d.open = expanded[i] ?? false })
  // What was done here stays to be read until another call is opened.
  if (notice && !panel.querySelector('.notice')) panel.querySelector('.panel-head').after(notice)
  panel.hidden = false
  workspace.classList.add('has-panel')
  panel.scrollTop = scrolled
  for (const row of rows.querySelectorAll('.row')) row.classList.toggle('is-open', row.dataset.ref === open)
}

async function select(ref, push) {
  await show(ref)
  if (open !== ref) return
  if (push) history.pushState(null, '', address())
  else history.replaceState(null, '', address())
  if (!wide.matches) panel.focus()
  connect()
}

function close() {
  const row = rows.querySelector('.is-open')
  open = ''
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
  if (!row || elsewhere || !document.getSelection().isCollapsed) return
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
  if (event.key !== 'Escape' || !open) return
  const typed = event.target.matches('input, select, textarea')
  if (typed) return
  close()
  history.replaceState(null, '', address())
})

panel.addEventListener('click', (event) => {
  if (!event.target.closest('[data-close]')) return
  event.preventDefault()
  close()
  history.replaceState(null, '', address())
})

panel.addEventListener('submit', async (event) => {
  const form = event.target.closest('[data-panel]')
  if (!form) return
  event.preventDefault()
  const body = new URLSearchParams([...query(), ...new FormData(form)])
  const { content } = await load(form.action, { method: 'POST', body })
  put(content)
  panel.querySelector('.notice')?.scrollIntoView({ block: 'nearest' })
})

addEventListener('popstate', () => {
  const values = new URLSearchParams(location.search)
  const ref = values.get('call') ?? ''
  const before = String(query())
  fill(values)
  if (String(query()) !== before) refresh()
  if (ref && ref !== open) select(ref, false)
  else if (!ref && open) close()
})

/* Here it begins. */

chart.start(document.getElementById('charts'))
mark()
for (const row of rows.children) dress(row)
if (rows.children.length) settle()
localize(panel)
connect()
