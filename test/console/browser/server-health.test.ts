import { expect, test } from 'vitest'
import { testOffer } from '../../harness/app.ts'
import { makeOperator } from '../../harness/browser-client.ts'
import { axeFindings, useChromium } from '../../harness/chromium.ts'
import { status } from '../../harness/scripted-upstream.ts'
import { openSignedIn } from '../../harness/signed-in-page.ts'
import { WAIT_OPTIONS } from '../../harness/timeouts.ts'
import { useTestApp, useUpstream } from '../../harness/use-test-app.ts'

// What people see of a server that fails every request of one customer, and of one that nobody uses.

const chromium = useChromium()
const upstream = useUpstream('file')
const app = useTestApp(() => ({
  yaml: 'demo: { enabled: false }\ndetect: { enabled: false }',
  offers: [
    testOffer(upstream.baseUrl, { modelId: 'broken', endpoint: { name: 'gpu-1' } }),
    testOffer('http://127.0.0.1:9', { modelId: 'idle', endpoint: { name: 'gpu-2' } }),
  ],
  timeouts: { serverReportIntervalMs: 20 },
}))

test('a server that fails 34 of 34 requests of one customer is failing on every page', async () => {
  upstream.always(status(500, { error: { message: 'CUDA out of memory', type: 'server_error' } }))
  const customer = await app.customer()
  const body = { model: 'broken', max_tokens: 5, messages: [{ role: 'user', content: 'Hello' }] }
  for (let n = 0; n < 34; n++) await (await app.chat(customer, body)).text()
  const { page, context, email, complaints } = await openSignedIn(chromium.browser, app, customer.customerId)
  const row = (table: string, name: string | RegExp) =>
    page.getByRole('table', { name: table }).getByRole('row', { name })

  await expect.poll(reported, WAIT_OPTIONS).toBe(34)
  await page.goto(`/c/${customer.customerId}/models`)
  await expect.poll(() => row('Models', /broken/).textContent()).toMatch(/down.*0 % answered on 1 day, no outage/)
  expect(await row('Models', /idle/).textContent()).toMatch(/no request lately.*no request in 90 days/)
  await page.goto('/status')
  await page.getByText('At least one model is down.').waitFor()
  expect(await row('Models', /broken/).textContent()).toMatch(/1 of 1 server down.*0 % answered on 1 day/)

  await makeOperator(app, email)
  for (const [path, table] of [
    ['/operator', 'Servers'],
    ['/operator/models', 'Models'],
  ] as const) {
    await page.setViewportSize({ width: 1280, height: 800 })
    await page.goto(path)
    await expect.poll(() => row(table, /broken/).textContent()).toMatch(/failing.*0 % of 34 answered/)
    expect(await row(table, /broken/).textContent()).toMatch(
      /kept away from 1 customer.*500 server_error: CUDA out of memory/,
    )
    expect(await row(table, /idle/).textContent()).toMatch(/no request lately/)
    for (const width of [1280, 360]) {
      await page.setViewportSize({ width, height: 800 })
      expect(await axeFindings(page)).toEqual([])
      expect(await page.evaluate('document.documentElement.scrollWidth - innerWidth')).toBe(0)
    }
  }
  await page.goto('/operator')
  const alarms = page.getByRole('region', { name: 'Alarms' }).getByRole('listitem')
  const alarm = alarms.filter({ hasText: 'gpu-1 fails for broken: 34 of the last 34 attempts failed.' })
  expect(await alarm.textContent()).toMatch(
    /No other server of broken works. Check the server and its key. Last error: 500/,
  )
  await alarm.getByRole('link').click()
  await expect.poll(() => page.url()).toMatch(/\/operator\/models\?model=broken$/)
  await page.goto('/operator')
  await row('Servers', /broken/)
    .getByRole('link', { name: 'request' })
    .click()
  await page.getByRole('dialog', { name: 'Receipt' }).waitFor()
  expect(page.url()).toMatch(/\/operator\/requests\/[0-9a-f-]{36}$/)
  await context.close()
  expect(complaints.filter(text => !/status of 4\d\d/.test(text))).toEqual([])
})

async function reported(): Promise<number> {
  const { rows } = await app.database.pool.query<{ failed: bigint }>(
    "SELECT failed FROM server_day WHERE model_id = 'broken'",
  )
  return Number(rows[0]?.failed ?? 0)
}
