import { readFile } from 'node:fs/promises'
import { expect, test } from 'vitest'
import { useChromium } from '../../harness/chromium.ts'
import { openSignedIn } from '../../harness/signed-in-page.ts'
import { useDemoApp } from '../../harness/use-demo-app.ts'

const app = useDemoApp()
const chromium = useChromium()
const ROWS = 4_000

test('a long export shows how far it is, can be stopped, and saves the whole file', async () => {
  const { customerId } = await app.customer()
  // Free rows, which the audit of the closing app would miss in the sums: they are deleted at the end.
  await app.database.pool.query(
    `INSERT INTO usage_event (customer_id, request_id, started_at, model_id, provider, input_tokens, output_tokens, usage_source,
       input_pico_per_token, output_pico_per_token, hold_nanos, cost_nanos, hoster_share_nanos, fee_nanos, latency_ms, success, outcome)
     SELECT $1, (lpad(to_hex($2::bigint - i), 12, '0') || '70008000000000000000')::uuid, to_timestamp(($2 - i) / 1000.0), 'demo', 'local', 1, 1,
       'none', 0, 0, 0, 0, 0, 0, 1, true, 'served'
     FROM generate_series(1, $3::integer) i`,
    [customerId, Date.now() - 1_000, ROWS],
  )
  const { page, context, complaints } = await openSignedIn(chromium.browser, app, customerId)
  await page.goto(`/c/${customerId}/usage?days=7`)
  const network = await context.newCDPSession(page)
  const slow = (downloadThroughput: number) =>
    network.send('Network.emulateNetworkConditions', {
      ...{ offline: false, latency: 0, uploadThroughput: -1, downloadThroughput },
    })
  await network.send('Network.enable')
  const csv = page.getByRole('button', { name: 'CSV of all requests of this period' })
  const status = page.getByRole('status').filter({ hasText: 'rows' })

  await csv.waitFor()
  await slow(40_000)
  await csv.focus()
  await page.keyboard.press('Enter')
  await expect.poll(() => status.textContent()).toMatch(/^[1-9][\d,]* rows, [\d.]+ kB$/)
  await page.getByRole('button', { name: 'Stop the export' }).click()
  await csv.waitFor()
  expect(await status.count()).toBe(0)

  await slow(-1)
  const [download] = await Promise.all([page.waitForEvent('download'), csv.click()])
  expect(download.suggestedFilename()).toMatch(/^switchyard-usage-.*\.csv$/)
  const text = await readFile(await download.path(), 'utf8')
  expect(text.trimEnd().split('\n')).toHaveLength(ROWS + 1)
  await expect.poll(() => status.textContent()).toMatch(/^Saved: 4,000 rows, [\d.]+ kB$/)
  await context.close()
  expect(complaints).toEqual([])
  await app.database.pool.query('DELETE FROM usage_event WHERE customer_id = $1', [customerId])
})
