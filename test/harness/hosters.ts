import { transaction } from '../../src/base/db/pool.ts'
import type { HosterScope } from '../../src/base/domain/hoster-access.ts'
import type { MemberRole } from '../../src/base/domain/member-role.ts'
import { type IssuedHosterKey, issueHosterKey } from '../../src/market/marketplace/hoster-keys.ts'
import { addHosterMember } from '../../src/market/marketplace/hoster-members.ts'
import type { TestApp } from './app.ts'
import { type BrowserClient, signedInMember } from './browser-client.ts'

/** Issues a key of a hoster. Every scope by default. */
export function hosterKey(
  app: TestApp,
  hosterId: string,
  scopes: readonly HosterScope[] = ['serve', 'manage', 'read'],
  expiresAt: Date | null = null,
): Promise<IssuedHosterKey> {
  return transaction(app.database.pool, sql => issueHosterKey(sql, { hosterId, name: 'test', scopes, expiresAt }))
}

/** Makes a person who is a member of the hoster, and signs in. */
export async function signedInHoster(
  app: TestApp,
  hosterId: string,
  role: MemberRole = 'owner',
): Promise<{ browser: BrowserClient; email: string; personId: string }> {
  const { customerId } = await app.customer()
  const { browser, email } = await signedInMember(app, customerId)
  const { rows } = await app.database.pool.query<{ person_id: string }>(
    'SELECT person_id FROM person WHERE email = $1',
    [email],
  )
  const personId = rows[0]!.person_id
  await addHosterMember(app.database.pool, { hosterId, personId, role })
  return { browser, email, personId }
}

/** Sends a request with the key of a hoster. @param path below /v1 */
export function hosterRequest(
  app: TestApp,
  key: string,
  path: string,
  { method = 'GET', body }: { method?: string; body?: unknown } = {},
): Promise<Response> {
  return fetch(`${app.url}/v1/${path}`, {
    method,
    headers: { authorization: `Bearer ${key}`, ...(body !== undefined && { 'content-type': 'application/json' }) },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  })
}
