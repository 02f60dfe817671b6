import { hkdfSync, randomUUID } from 'node:crypto'
import type { Pool, Sql } from '../base/db/pool.ts'
import { queryRow } from '../base/db/query-row.ts'
import { refuseOutage } from '../base/db/refuse-outage.ts'
import { DAY_MS } from '../base/domain/durations.ts'
import { ApiError } from '../base/domain/errors.ts'
import type { InstallationRole } from '../base/domain/member-role.ts'
import { type OperatorScope, operatorScopes } from '../base/domain/operator-scope.ts'
import { sayRefusal } from '../base/domain/refusals.ts'
import { joined, type Said } from '../base/domain/said.ts'
import type { Clock } from '../base/runtime/scheduler.ts'
import { hashApiKey, hasValidChecksum, hintOf, mintApiKey } from '../identity/auth/api-key.ts'
import { credentialOf } from '../identity/auth/authenticator.ts'
import type { SignedIn } from '../identity/people/sessions.ts'
import type { IssuedOperatorKey, OperatorKeyList, parseOperatorKey } from '../wire/api/operator/keys.ts'
import { type Actor, act } from './operator-action.ts'

/** Keys of operators and auditors, `ok-sy-...`, for the operator API. All methods reject with ApiError. */
export interface OperatorKeys {
  /**
   * Returns the operator or auditor of a key, in the place of a session. Asks PostgreSQL each time, so a key stops at
   * once. Rejects with `invalid_operator_key`, `insufficient_scope` or `database_unavailable`.
   */
  authenticate(rawHeaders: readonly string[], scope: OperatorScope): Promise<SignedIn>
  /** The keys that work, the newest first. */
  list(): Promise<OperatorKeyList>
  /** Makes a key for oneself or for an auditor. Rejects with `invalid_value`. */
  issue(actor: Actor, order: ReturnType<typeof parseOperatorKey>): Promise<IssuedOperatorKey>
  /** Rejects with `not_found`. */
  revoke(actor: Actor, keyId: string): Promise<void>
}

export interface OperatorKeysDeps {
  readonly desk: Pool
  /** `desk` with a short timeout. */
  readonly lookups: Sql
  readonly clock: Clock
  /** @param key 32 bytes */
  readonly seal: (key: Buffer, text: string, keyId: string) => Buffer
  readonly open: (key: Buffer, sealed: Buffer, keyId: string) => string
}

export function createOperatorKeys({ desk, lookups, clock, seal, open }: OperatorKeysDeps): OperatorKeys {
  return {
    async authenticate(rawHeaders, scope) {
      const key = keyOf(rawHeaders)
      const hash = hashOf(key)
      const { rows } = await lookups
        .query<KeyRow>(
          `SELECT key_id AS "keyId", scopes, person_id AS "personId", email, person_name AS name, role FROM use_operator_key($1)`,
          [hash],
        )
        .catch(refuseOutage)
      const [found] = rows
      if (found === undefined) throw new ApiError('invalid_operator_key')
      const { keyId, scopes, personId, email, name, role } = found
      if (!scopes.includes(scope)) throw lacksScope(scope)
      // Answers of vouchers have their codes, which the database must not know.
      const sealingKey = Buffer.from(hkdfSync('sha256', key, '', 'answers of the operator API', 32))
      const nowMs = clock.epochMs()
      return {
        key: {
          keyId,
          mayMoveMoney: scopes.includes('money'),
          seal: text => seal(sealingKey, text, keyId),
          open: sealed => open(sealingKey, sealed, keyId),
        },
        sessionId: keyId,
        tokenHash: hash,
        person: { personId, email, name, installationRole: role },
        // The scope takes the place of a confirmation.
        confirmedAt: new Date(nowMs),
        expiresAt: new Date(nowMs + DAY_MS),
        hasSecondFactor: true,
        isFromHost: false,
        hasFactor: true,
      }
    },
    list: () => listOperatorKeys(lookups).catch(refuseOutage),
    issue: (actor, { name, scopes, expires_in_days: days, person_id }) =>
      act(desk, actor, async sql => {
        const issued = drawOperatorKey()
        const verdict = await ask(
          sql,
          'SELECT issue_operator_key_by_operator($1, $2, $3, $4, $5, $6, $7, $8, $9) AS verdict',
          [
            ...[actor.session, issued.keyId, person_id ?? actor.personId, name, issued.hash, issued.hint],
            ...[sortedScopes(scopes), days == null ? null : new Date(clock.epochMs() + days * DAY_MS), actor.address],
          ],
        )
        if (verdict !== 'made') throw operatorKeyRefusal(verdict)
        return { id: issued.keyId, key: issued.key, hint: issued.hint }
      }),
    revoke: (actor, keyId) =>
      act(desk, actor, async sql => {
        const { done } = await queryRow<{ done: boolean }>(
          sql,
          'SELECT revoke_operator_key_by_operator($1, $2, $3) AS done',
          [actor.session, keyId, actor.address],
        )
        if (!done) throw new ApiError('not_found', { message: sayRefusal('refusal.no_operator_key') })
      }),
  }
}

export function lacksScope(scope: OperatorScope): ApiError {
  return new ApiError('insufficient_scope', {
    message: sayRefusal('refusal.key_needs_scope', { scope }),
  })
}

interface KeyRow {
  readonly keyId: string
  readonly scopes: readonly OperatorScope[]
  readonly personId: string
  readonly email: string
  readonly name: string
  readonly role: InstallationRole
}

/** Draws a key. Only its hash is stored. */
export function drawOperatorKey(): { keyId: string; key: string; hash: Buffer; hint: string } {
  const key = mintApiKey('ok-sy-')
  return { keyId: randomUUID(), key, hash: hashOf(key), hint: hintOf(key) }
}

export function sortedScopes(scopes: readonly OperatorScope[]): OperatorScope[] {
  return operatorScopes.filter(scope => scopes.includes(scope))
}

/** The error for a verdict of issue_operator_key_as. */
export function operatorKeyRefusal(verdict: string): ApiError {
  const [param, message] = refusals[verdict] ?? ['person_id', sayRefusal('refusal.key_not_made')]
  return new ApiError('invalid_value', { param, message: joined(message, sayRefusal('refusal.nothing_changed')) })
}

const refusals: Readonly<Record<string, readonly [param: string, message: Said]>> = {
  no_role: ['person_id', sayRefusal('refusal.person_without_role')],
  other_operator: ['person_id', sayRefusal('refusal.key_of_other_operator')],
  auditor_reads: ['scopes', sayRefusal('refusal.auditor_reads')],
  too_many: ['person_id', sayRefusal('refusal.too_many_operator_keys')],
}

export async function listOperatorKeys(sql: Sql): Promise<OperatorKeyList> {
  const { rows } = await sql.query<{
    id: string
    name: string
    hint: string
    scopes: OperatorScope[]
    personId: string
    email: string
    role: InstallationRole | null
    createdAt: Date
    expiresAt: Date | null
    lastUsedAt: Date | null
  }>(
    `SELECT key_id AS id, k.name, hint, scopes, person_id AS "personId", email, installation_role AS role, k.created_at AS "createdAt",
            expires_at AS "expiresAt", last_used_at AS "lastUsedAt"
       FROM operator_key k JOIN person USING (person_id)
      WHERE revoked_at IS NULL AND (expires_at IS NULL OR expires_at > now()) ORDER BY k.created_at DESC, key_id LIMIT 1000`,
  )
  return {
    data: rows.map(({ personId, email, role, createdAt, expiresAt, lastUsedAt, ...shown }) => ({
      ...shown,
      person: { id: personId, email, role },
      created_at: createdAt.toISOString(),
      expires_at: expiresAt?.toISOString() ?? null,
      last_used_at: lastUsedAt?.toISOString() ?? null,
    })),
  }
}

function keyOf(rawHeaders: readonly string[]): string {
  let key: string | undefined
  try {
    key = credentialOf(rawHeaders)
  } catch {
    // It throws the error of customers' keys.
  }
  // A guessed key costs no query.
  if (key === undefined || !hasValidChecksum(key, 'ok-sy-')) throw new ApiError('invalid_operator_key')
  return key
}

function hashOf(key: string): Buffer {
  return Buffer.from(hashApiKey(key), 'base64')
}

async function ask(sql: Sql, statement: string, values: unknown[]): Promise<string> {
  const { verdict } = await queryRow<{ verdict: string }>(sql, statement, values)
  return verdict
}
