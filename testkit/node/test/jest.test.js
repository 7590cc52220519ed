const { startCollector } = require('analytics-collector-testkit')

let collector
beforeAll(async () => { collector = await startCollector() })
afterAll(() => collector?.stop())
beforeEach(() => collector.reset())

test('a rejected call is listed', async () => {
  await fetch(`${collector.url}/v1/track`, { method: 'POST', body: '{"writeKey":"web","userId":"user-123"}' })
  await collector.expectCall({ bad: true, code: 'event_not_defined', count: 1 })
  expect(await collector.rejectedCalls()).toMatchObject([{ good: false, code: 'event_not_defined' }])
})
