import { setTimeout as delay } from 'node:timers/promises'
import { Pool as HttpPool } from 'undici'
import { percentile } from '../percentile.ts'

/** A screen of the console, and what it reads when it opens. */
export interface Screen {
  readonly name: string
  /** Below the origin. Null: no page yet, or none of its own. */
  readonly page: string | null
  /** Addresses below the origin. */
  readonly reads: readonly string[]
}

export interface ScreenFigures {
  readonly name: string
  readonly reads: number
  readonly p50Ms: number
  readonly p95Ms: number
  readonly maxMs: number
  /** The address with the highest median, and that median. */
  readonly slowest: string
  readonly slowestMs: number
}

const API = '/console/api'
/** As many connections as a browser opens to a server. */
const CONNECTIONS = 6
const REFUSED_WAIT_MS = 2_000

export interface ScreenPlaces {
  readonly customerId: string
  readonly requestId: string
  readonly keyId: string
  readonly ruleId: string
}

/** The screens of a customer, each with its data. console/src/router.tsx has the pages. */
export function customerScreens({ customerId, requestId, keyId, ruleId }: ScreenPlaces): Screen[] {
  const screen = (name: string, page: string | null, ...reads: string[]): Screen => ({
    name,
    page: page === null ? null : `/c/${customerId}${page}`,
    reads: [`${API}/session`, ...['credits', ...reads].map(path => `${API}/customers/${customerId}/${path}`)],
  })
  const usage = (days: number, interval: string) => [
    `usage/tokens?days=${days}&interval=${interval}`,
    `usage/breakdown?days=${days}`,
    `usage/keys?days=${days}&interval=day`,
  ]
  return [
    screen(
      'home',
      '/',
      ...['limits', 'latency', 'key-names', 'models', 'usage/tokens?days=30&interval=day', 'usage/requests?limit=5'],
    ),
    screen('usage, 30 days', '/usage', ...usage(30, 'day')),
    screen('usage, a year', '/usage?days=365', ...usage(365, 'day')),
    screen(
      'usage by model, member and provider, a year',
      null,
      ...SHARES.map(by => `usage/${by}?days=365&interval=day`),
    ),
    screen('activity', '/activity', 'key-names', 'usage/requests?limit=100', 'usage/breakdown?days=90'),
    screen('activity of a model', '/activity?model=qwen3-32b', 'usage/requests?limit=100&model=qwen3-32b'),
    screen('activity, failed', '/activity?success=false', 'usage/requests?limit=100&success=false'),
    screen('activity of a key without requests', null, `usage/requests?limit=100&key=${keyId}`),
    screen('receipt', `/activity/${requestId}`, `usage/requests/${requestId}`),
    screen('keys', '/keys', 'keys', 'models'),
    screen('credits', '/credits', 'credits/transactions'),
    screen('models', '/models', 'models', 'model-facts'),
    screen('playground', '/playground', 'models'),
    screen('people', '/settings/people', 'people', 'invites'),
    screen('alerts', '/settings/alerts', 'alerts', `alerts/${ruleId}/deliveries`),
    {
      name: 'security',
      page: `/c/${customerId}/settings/security`,
      reads: [`${API}/session`, `${API}/sessions`, `${API}/factors`],
    },
  ]
}

const SHARES = ['models', 'members', 'providers']

/** The screens of the operator, and the status page. */
export function operatorScreens({ customerId }: ScreenPlaces): Screen[] {
  const screen = (name: string, page: string | null, ...reads: string[]): Screen => ({
    name,
    page: page === null ? null : `/operator${page}`,
    reads: [`${API}/session`, ...reads.map(path => `${API}/operator/${path}`)],
  })
  return [
    screen('overview', '/', 'overview', 'usage?by=customer', 'latency', 'customers'),
    screen('customers', '/customers', 'customers'),
    screen('customers, search', null, 'customers?search=customer-77'),
    screen('customers, search without a match', null, 'customers?search=nobody-has-this'),
    screen('customers, paused', null, 'customers?state=paused'),
    ...['email', 'balance', 'spent', 'requests'].map(sort =>
      screen(`customers, by ${sort}`, null, `customers?sort=${sort}`),
    ),
    screen('a customer', `/customers/${customerId}`, `customers/${customerId}`),
    screen('grants that wait', '/grants', 'grants?state=waiting'),
    screen('all grants', null, 'grants?state=all'),
    screen('log', '/log', 'log', 'log/state'),
    screen('log of an action without entries', null, 'log?action=hoster'),
    screen('log of a person without entries', null, 'log?person=00000000-0000-4000-8000-000000000000'),
    screen('log of a customer', null, `log?customer=${customerId}`),
    screen('system', '/system', 'system'),
    screen('models and prices', null, 'models', 'prices', 'hosters'),
    screen('money', null, 'money'),
    ...['provider', 'server', 'model', 'customer', 'key'].map(by => screen(`usage by ${by}`, null, `usage?by=${by}`)),
    screen('requests', null, 'requests'),
    screen(
      'requests of a model that failed',
      null,
      'requests?model=qwen3-32b&outcome=unserved&server=gpu-1&failure=busy',
    ),
    screen('requests of a customer', null, `requests?customer=${customerId}`),
    screen('requests with the text of an error', null, 'requests?error=memory'),
    screen('a request', null, `requests?id=${customerId}`),
    screen('usage of a customer by model', null, `usage?by=model&customer=${customerId}`),
    { name: 'status page', page: '/status', reads: ['/status.json'] },
  ]
}

/**
 * Opens a screen again and again: all its addresses at once, over the connections of a browser, each answer read to its end.
 * The first time is not counted. Throws for an answer other than 200 and 429.
 */
export async function measureScreen(
  origin: string,
  { name, reads }: Screen,
  headers: Record<string, string>,
  times: number,
): Promise<ScreenFigures> {
  const http = new HttpPool(origin, { connections: CONNECTIONS })
  const readMs = reads.map(() => new Float64Array(times))
  const openMs = new Float64Array(times)
  const read = async (path: string) => {
    const startedMs = performance.now()
    const { statusCode, body } = await http.request({ method: 'GET', path, headers })
    const text = await body.text()
    if (statusCode === 429) return null
    if (statusCode !== 200) throw new Error(`${path} answered ${statusCode}: ${text.slice(0, 300)}`)
    return performance.now() - startedMs
  }
  for (let time = -1; time < times; ) {
    const startedMs = performance.now()
    const took = await Promise.all(reads.map(read))
    const openedMs = performance.now() - startedMs
    // A person may read 600 answers a minute.
    if (took.includes(null)) await delay(REFUSED_WAIT_MS)
    else if (time++ >= 0) {
      openMs[time - 1] = openedMs
      for (const [index, ms] of took.entries()) readMs[index]![time - 1] = ms!
    }
  }
  await http.close()
  openMs.sort()
  const medians = readMs.map(ms => percentile(ms.sort(), 0.5))
  const slowestMs = Math.max(...medians)
  return {
    name,
    reads: reads.length,
    p50Ms: percentile(openMs, 0.5),
    p95Ms: percentile(openMs, 0.95),
    maxMs: openMs.at(-1)!,
    slowest: reads[medians.indexOf(slowestMs)]!,
    slowestMs,
  }
}
