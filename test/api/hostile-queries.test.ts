import { expect, test } from 'vitest'
import { makeOperator } from '../harness/browser-client.ts'
import { hosterKey, signedInHoster } from '../harness/hosters.ts'
import { routesOf } from '../harness/routes-of.ts'
import { useTestApp } from '../harness/use-test-app.ts'

// Every GET of the gateway gets bad values for each of its query parameters. It must answer, and never with a 5xx.

const app = useTestApp({ yaml: 'reports: { requests_per_minute: 1000000 }' })

/** Names of query parameters of any endpoint. `readQuery` refuses a NUL in a parameter that the endpoint knows, which finds its own ones. */
const names = [
  ...['after', 'after_id', 'before', 'before_id', 'by', 'cursor', 'customer', 'customer_id', 'days', 'email', 'format'],
  ...['from', 'hoster', 'id', 'interval', 'key', 'kind', 'label', 'limit', 'model', 'month', 'outcome', 'pageSize'],
  ...['pageToken', 'provider', 'q', 'search', 'sort', 'standing', 'state', 'status', 'success', 'to', 'until'],
]

const badValues = [
  ...[
    '0000-01-01',
    '0001-01-01',
    '1969-12-31',
    '1970-01-01',
    '9999-12-31',
    '10000-01-01',
    '-000001-01-01',
    '2026-02-30',
  ],
  ...[
    '0001-01-01T00:00:00+23:59',
    '9999-12-31T23:59:59-23:59',
    '1e3',
    '-1',
    '0',
    '9'.repeat(40),
    '',
    ' ',
    "'",
    '%',
    '\\',
  ],
  ...[
    '\u{1d7d8}',
    '\ud7ff\ue000',
    'x'.repeat(2_000),
    '00000000-0000-0000-0000-000000000000',
    'MC4w',
    'OTk5OTk5Ljk5OTk5OTk5OTk5OTk5OTk5OQ',
  ],
]

test('no query parameter causes a 5xx or a cut answer', async () => {
  const customer = await app.customer()
  const hosterId = await app.hoster({ baseUrl: 'https://models.acme.dev/v1' })
  const { browser, personId } = await signedInHoster(app, hosterId)
  await makeOperator(app, personId)
  const { key } = await hosterKey(app, hosterId)
  /** Returns null for a stream that does not end. */
  const get = async (path: string) => {
    const leave = new AbortController()
    const response = await fetch(app.url + path, {
      headers: path.startsWith('/console/api/')
        ? { cookie: browser.cookie!, 'sec-fetch-site': 'same-origin' }
        : { authorization: `Bearer ${path.startsWith('/v1/hoster/') ? key : customer.key}` },
      signal: leave.signal,
    })
    if (response.headers.get('content-type') === 'text/event-stream') return leave.abort()
    return { status: response.status, text: await response.text() }
  }
  const wrong: string[] = []
  let parameters = 0
  for (const route of routesOf(app.app.server.printRoutes())) {
    if (!route.startsWith('GET /')) continue
    const path = route
      .slice('GET '.length)
      .replace(':customer_id', customer.customerId)
      .replace(':hoster_id', hosterId)
      .replace(/:\w+/g, '00000000-0000-7000-8000-000000000001')
      .replace('*', 'test-model')
    for (const name of names) {
      const nul = await get(`${path}?${name}=%00`)
      if (!nul?.text.includes(`${name} must have no NUL characters`)) continue
      parameters++
      for (const value of badValues) {
        const query = `${path}?${name}=${encodeURIComponent(value)}`
        const answered = await get(query).catch(error => ({ status: 0, text: String(error) }))
        if (!(answered && answered.status >= 200 && answered.status < 500))
          wrong.push(`${query} ${answered?.status} ${answered?.text}`)
      }
    }
  }
  expect(wrong).toEqual([])
  expect(parameters).toBeGreaterThan(35)
})
