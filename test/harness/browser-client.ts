import { randomBytes } from 'node:crypto'
import { transaction } from '../../src/base/db/pool.ts'
import type { MemberRole } from '../../src/base/domain/member-role.ts'
import { makeInviteLink, makeWelcomeLink } from '../../src/identity/people/links.ts'
import { addPerson } from '../../src/identity/people/persons.ts'
import type { TestApp } from './app.ts'

/** What a page of the console sends: its cookie, and the headers that a browser adds. */
export class BrowserClient {
  readonly #url: string
  /** The cookies of the browser by name. */
  readonly #cookies = new Map<string, string>()

  readonly #headers: Record<string, string>

  /** @param headers sent with every request */
  constructor(url: string, headers: Record<string, string> = {}) {
    this.#url = url
    this.#headers = headers
  }

  /** The cookie of the session, as name and value. */
  get cookie(): string | undefined {
    return [...this.#cookies].map(pair => pair.join('=')).find(pair => /^(__Host-)?sy_session=/.test(pair))
  }

  get #allCookies(): string {
    return [...this.#cookies].map(pair => pair.join('=')).join('; ')
  }

  /** @param path below /console/api */
  async send(method: string, path: string, body?: unknown, headers: Record<string, string> = {}): Promise<Response> {
    const response = await fetch(`${this.#url}/console/api/${path}`, {
      method,
      headers: {
        'sec-fetch-site': 'same-origin',
        'user-agent': 'Test browser',
        ...this.#headers,
        ...(body !== undefined && { 'content-type': 'application/json' }),
        ...(this.#cookies.size > 0 && { cookie: this.#allCookies }),
        ...headers,
      },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    })
    for (const set of response.headers.getSetCookie()) {
      const [name, value] = set.split(';')[0]!.split('=') as [string, string]
      if (value === '') this.#cookies.delete(name)
      else this.#cookies.set(name, value)
    }
    return response
  }

  get(path: string): Promise<Response> {
    return this.send('GET', path)
  }

  post(path: string, body: unknown = {}): Promise<Response> {
    return this.send('POST', path, body)
  }
}

export const PASSWORD = 'correct horse battery staple'

/** Makes a person who is a member of the customer, and signs in. @param url of the gateway, by another name */
export async function signedInMember(
  app: TestApp,
  customerId: string,
  role: MemberRole = 'owner',
  nowMs = Date.now(),
  url = app.url,
): Promise<{ browser: BrowserClient; email: string }> {
  const email = `${role}-${randomBytes(4).toString('hex')}@example.com`
  const link = await transaction(app.database.pool, sql => makeInviteLink(sql, { customerId, email, role }, nowMs))
  const browser = new BrowserClient(url)
  const joined = await browser.post('join', { token: tokenOf(link), name: 'Ada', password: PASSWORD })
  if (joined.status !== 200) throw new Error(`${joined.status} ${await joined.text()}`)
  return { browser, email }
}

/** Makes an operator and returns the token of the welcome link. */
export async function operatorToken(
  app: TestApp,
  email: string,
  nowMs = Date.now(),
): Promise<{ token: string; personId: string }> {
  return await transaction(app.database.pool, async sql => {
    const { personId } = (await addPerson(sql, { email, installationRole: 'operator' }))!
    return { token: tokenOf(await makeWelcomeLink(sql, personId, nowMs)), personId }
  })
}

/**
 * Gives a person the role of an operator, as after a link of the host: the sessions need no second factor here.
 *
 * @param person e-mail address or id
 */
export async function makeOperator({ database }: Pick<TestApp, 'database'>, person: string): Promise<void> {
  await database.pool.query(
    `WITH made AS (UPDATE person SET installation_role = 'operator' WHERE $1 IN (email, person_id::text) RETURNING person_id)
     UPDATE person_session SET is_from_host = true WHERE person_id = (SELECT person_id FROM made)`,
    [person],
  )
}

export function tokenOf(link: string): string {
  return link.split('#')[1]!
}

/** Makes an operator and signs in. */
export async function signedInOperator(app: TestApp): Promise<{ browser: BrowserClient; personId: string }> {
  const { token, personId } = await operatorToken(app, `operator-${randomBytes(4).toString('hex')}@example.com`)
  const browser = new BrowserClient(app.url)
  const entered = await browser.post('welcome', { token, password: PASSWORD })
  if (entered.status !== 200) throw new Error(`${entered.status} ${await entered.text()}`)
  return { browser, personId }
}
