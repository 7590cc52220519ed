// Tests of the calls that a page sends, in a browser driven by Playwright. CHROMIUM is the path
// of the browser; by default the installed Chrome is used.
import assert from 'node:assert/strict'
import { after, before, beforeEach, test } from 'node:test'
import { startCollector } from 'analytics-collector-testkit'
import { chromium } from 'playwright-core'
import { serve } from './server.js'

let collector, shop, browser, page

before(async () => {
  collector = await startCollector()
  shop = await serve(collector.url)
  browser = await chromium.launch(process.env.CHROMIUM ? { executablePath: process.env.CHROMIUM } : { channel: 'chrome' })
})
after(async () => {
  await browser?.close()
  shop?.close()
  await collector?.stop()
})
beforeEach(async () => {
  await page?.context().close() // its unsent calls would otherwise arrive in the next test
  await collector.reset()
  page = await browser.newPage() // a new context is a new visitor
  await page.goto(shop.url)
})

test('a visit sends an anonymous page call', async () => {
  await collector.expectCalls([
    { type: 'page', name: 'Shop', anonymousId: { $any: true }, userId: null, properties: { path: '/' }, count: 1 },
    { type: 'track', count: 0 },
  ])
})

test('a sign-up sends an identify and a track call', async () => {
  await page.getByLabel('Name').fill('user-123')
  await page.getByLabel('Plan').selectOption('Enterprise')
  await page.getByRole('button', { name: 'Sign up' }).click()
  assert.equal(await page.getByRole('status').textContent(), 'Welcome, user-123')
  await collector.expectCalls([
    { type: 'identify', userId: 'user-123', traits: { plan: 'Enterprise' }, count: 1 },
    {
      type: 'track',
      event: 'Signed Up',
      userId: 'user-123',
      properties: { plan: { $regexp: '^(Free|Enterprise)$' } },
      context: { library: { name: 'analytics.js' }, page: { title: 'Shop' } },
      count: 1,
    },
    { bad: true, count: 0 },
  ])
})
