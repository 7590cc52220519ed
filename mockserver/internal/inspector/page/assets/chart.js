// Charts of calls and deliveries. For the last five minutes, heights use a square-root scale,
// which keeps low rates visible next to a burst. Longer ranges use a linear scale. Parts of a bar
// are proportional to their shares.

import { clockTime, number, request } from './html.js'

// Ranges by name: the number of bars, the seconds per bar, and the unit of rates in seconds. The
// server sends the bars of ranges with a name.
const ranges = {
  '': { bars: 100, slot: 3, unit: 1, per: 's', name: 'last five minutes' },
  hour: { bars: 60, slot: 60, unit: 60, per: 'min', name: 'last hour' },
  day: { bars: 96, slot: 900, unit: 3600, per: 'h', name: 'last day' },
}
const height = 50
const kinds = ['accepted', 'repeated', 'rejected', 'delivered', 'retried', 'failed', 'filtered']
const word = (kind) => (kind === 'repeated' ? 'duplicates' : kind)

const seconds = new Map() // counts of each kind by Unix time
const loadPause = 10 // seconds between requests for bars
let range = ranges['']
let loaded = new Map() // counts of each kind by the time of a bar, for ranges with a name
let loadedAt = 0
let now = 0
let charts = []
let described = 0

// start initializes the charts with the data in the page.
export function start(section) {
  charts = [...section.querySelectorAll('.chart')].map((figure) => new Chart(figure))
  const select = section.querySelector('select')
  select.parentElement.hidden = false
  select.value = '' // the browser may have restored another choice
  select.addEventListener('change', () => {
    range = ranges[select.value]
    loaded = new Map()
    loadedAt = 0
    described = 0
    draw()
  })
  const first = JSON.parse(section.dataset.tally)
  update(first.now, first.seconds)
}

// update adds the seconds of a frame.
export function update(time, rows) {
  now = time
  for (const [at, ...counts] of rows ?? []) seconds.set(at, counts)
  for (const at of seconds.keys()) if (at <= now - 303) seconds.delete(at)
  draw()
}

function draw() {
  if (range !== ranges['']) load().catch(() => {}) // the stream reports a lost connection
  for (const chart of charts) chart.draw()
  described = now - described >= 10 ? now : described
}

// load requests the bars of the range.
async function load() {
  if (now - loadedAt < loadPause) return
  loadedAt = now
  const mine = range
  const response = await request('/chart?range=' + Object.keys(ranges).find((name) => ranges[name] === mine))
  if (!response.ok || range !== mine) return
  loaded = new Map((await response.json()).bars.map(([at, ...counts]) => [at, counts]))
  draw()
}

// scaleTop returns the smallest round number at or above a rate.
function scaleTop(rate) {
  for (let top = 1; ; top *= 10) {
    for (const figure of [top, 2 * top, 5 * top]) if (figure >= rate) return figure
  }
}

const ns = 'http://www.w3.org/2000/svg'

class Chart {
  constructor(figure) {
    this.figure = figure
    this.svg = figure.querySelector('svg')
    this.name = figure.querySelector('.chart-title').textContent
    for (const y of [0, height / 2, height]) {
      const axis = this.shape('line', 'axis')
      for (const [name, value] of [['x1', 0], ['x2', '100%'], ['y1', y], ['y2', y]]) axis.setAttribute(name, value)
    }
    this.kinds = figure.dataset.kinds.split(' ').map((name) => ({
      name, index: kinds.indexOf(name), path: this.shape('path', `c-${name}`), sum: figure.querySelector(`[data-sum="${name}"]`),
    }))
    this.cursor = this.shape('line', 'cursor')
    this.peak = figure.querySelector('.peak')
    this.readout = figure.querySelector('.readout')
    this.svg.addEventListener('pointermove', (event) => this.point(event))
    this.svg.addEventListener('pointerleave', () => { this.at = null; this.read() })
  }

  shape(name, className) {
    const shape = this.svg.appendChild(document.createElementNS(ns, name))
    shape.setAttribute('class', className)
    return shape
  }

  // slots sums the seconds of each bar. A bar keeps its seconds as it moves left.
  slots() {
    const { bars, slot } = range
    const last = Math.floor(now / slot)
    return Array.from({ length: bars }, (_, i) => {
      const first = (last - bars + 1 + i) * slot
      if (range !== ranges['']) return { first, sums: loaded.get(first) ?? new Array(kinds.length).fill(0) }
      const sums = new Array(kinds.length).fill(0)
      for (let at = first; at < first + slot; at++) {
        seconds.get(at)?.forEach((n, kind) => { sums[kind] += n })
      }
      return { first, sums }
    })
  }

  draw() {
    const { bars, slot, unit, per } = range
    const linear = range !== ranges['']
    this.svg.setAttribute('viewBox', `0 0 ${bars} ${height}`)
    this.bars = this.slots()
    const totals = this.bars.map(({ sums }) => this.kinds.reduce((sum, { index }) => sum + sums[index], 0))
    const most = Math.max(...totals)
    const top = scaleTop(most / slot * unit) * slot / unit
    const heights = totals.map((n) => height * (linear ? n / top : Math.sqrt(n / top)))
    const bases = new Array(bars).fill(0)
    for (const kind of this.kinds) {
      let path = ''
      let sum = 0
      this.bars.forEach(({ sums }, i) => {
        const n = sums[kind.index]
        if (n === 0) return
        sum += n
        const part = heights[i] * n / totals[i]
        const y = height - bases[i] - part
        path += `M${i + 0.1} ${y.toFixed(2)}h.8v${part.toFixed(2)}h-.8z`
        bases[i] += part
      })
      kind.path.setAttribute('d', path)
      kind.total = sum
      const text = number(sum)
      if (kind.sum.textContent !== text) kind.sum.textContent = text
    }
    this.label('.top-label', top)
    this.label('.half-label', top / (linear ? 2 : 4))
    this.peak.textContent = most ? `${linear ? '' : '√ scale, '}peak ${this.rate(most)}/${per}` : ''
    if (now - described >= 10) this.describe(most)
    this.read()
  }

  // label sets the text of an axis label.
  label(name, n) {
    const text = `${number(n / range.slot * range.unit)}/${range.per}`
    const place = this.figure.querySelector(name)
    if (place.textContent !== text) place.textContent = text
  }

  // describe sets the accessible description.
  describe(most) {
    const sums = this.kinds.map((kind) => `${number(kind.total)} ${word(kind.name)}`).join(', ')
    this.svg.setAttribute('aria-label', `${this.name}, ${range.name}: ${sums}; peak ${this.rate(most)}/${range.per}`)
  }

  rate(n) {
    const rate = n / range.slot * range.unit
    return number(rate >= 10 ? Math.round(rate) : Math.round(rate * 10) / 10)
  }

  point(event) {
    const box = this.svg.getBoundingClientRect()
    this.at = Math.min(range.bars - 1, Math.max(0, Math.floor(((event.clientX - box.left) / box.width) * range.bars)))
    this.read()
  }

  // read shows the counts of the bar under the pointer.
  read() {
    const bar = this.at == null ? null : this.bars[this.at]
    this.figure.classList.toggle('has-readout', bar !== null)
    this.cursor.setAttribute('y2', bar ? height : 0)
    if (!bar) return
    const x = this.at + 0.5
    this.cursor.setAttribute('x1', x)
    this.cursor.setAttribute('x2', x)
    const parts = this.kinds.filter(({ index }) => bar.sums[index] > 0).map(({ name, index }) => `${this.rate(bar.sums[index])}/${range.per} ${word(name)}`)
    this.readout.textContent = `${clockTime(new Date(bar.first * 1000), false)}  ${parts.join(', ') || 'no calls'}`
  }
}
