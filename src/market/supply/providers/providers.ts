import { bumpControlVersion } from '../../../base/db/control-version.ts'
import type { Sql } from '../../../base/db/pool.ts'
import { queryRow } from '../../../base/db/query-row.ts'
import type { Offer } from '../../../base/domain/offer.ts'
import type { ProviderSecrets } from '../../../base/domain/provider-secrets.ts'
import type { SealingKeys } from '../../../base/domain/sealing-keys.ts'
import { SupplyError } from '../../../base/domain/supply-error.ts'
import { isJsonObject, type JsonObject } from '../../../base/runtime/json-object.ts'
import { sealSecret } from '../../../base/secrets/sealed-secret.ts'
import { openSupplyKey } from '../open-supply-key.ts'

/** A provider that operators manage at run time. */
export interface Provider {
  readonly name: string
  readonly version: number
  /** An entry of `endpoints` as in switchyard.yaml, without keys; null: it was removed. */
  readonly settings: JsonObject | null
  readonly secretsSealed: Buffer | null
  /** Why the current version was made, and when. */
  readonly reason: string
  readonly changedAt: Date
  /** New models that its rules name and that wait for an operator, as entries of `models`. */
  readonly proposedModels: readonly JsonObject[]
  /** When its server was last asked for new models, and why it did not answer. */
  readonly askedAt: Date | null
  readonly askProblem: string | null
}

/** Turns an entry of `endpoints` into offers as if the file had it. Throws SupplyError that names each wrong key. */
export type ReadEndpoint = (entry: JsonObject) => readonly Offer[]

const SELECT_PROVIDERS = `
  SELECT p.name, p.version, v.settings, p.secrets_sealed AS "secretsSealed", v.reason, v.at AS "changedAt",
    p.proposed_models AS "proposedModels", p.asked_at AS "askedAt", p.ask_problem AS "askProblem"
    FROM provider p JOIN provider_version v USING (name, version)`

/** Returns the providers that were not removed, by name. */
export async function listProviders(sql: Sql): Promise<Provider[]> {
  const { rows } = await sql.query<Provider>(`${SELECT_PROVIDERS} WHERE v.settings IS NOT NULL ORDER BY p.name`)
  return rows
}

/** Returns a provider, also one that was removed, and locks it until the end of the transaction. */
export async function lockProvider(sql: Sql, name: string): Promise<Provider | undefined> {
  // Read in a later statement: one that waited for the lock would not see the version that was written meanwhile.
  await sql.query('SELECT FROM provider WHERE name = $1 FOR UPDATE', [name])
  const { rows } = await sql.query<Provider>(`${SELECT_PROVIDERS} WHERE p.name = $1`, [name])
  return rows[0]
}

/**
 * Returns the offers of all managed providers. Reports and skips a provider whose keys cannot be decrypted or whose
 * settings this version of the gateway refuses.
 */
export async function readProviderOffers(
  sql: Sql,
  options: {
    readonly masterKeys: SealingKeys
    readonly readEndpoint: ReadEndpoint
    readonly onProblem: (message: string) => void
  },
): Promise<readonly Offer[]> {
  const providers = await listProviders(sql)
  return providers.flatMap(provider => {
    try {
      return managedOffers(options.readEndpoint, openedEntry(options.masterKeys, provider), provider.version)
    } catch (error) {
      if (!(error instanceof SupplyError)) throw error
      options.onProblem(`Provider "${provider.name}" is not offered. ${error.message}`)
      return []
    }
  })
}

/** Returns the offers of an entry of `endpoints` that has its keys, as those of a version of a managed provider. */
export function managedOffers(readEndpoint: ReadEndpoint, entry: JsonObject, version: number): readonly Offer[] {
  return readEndpoint(entry).map(offer => ({
    ...offer,
    endpoint: { ...offer.endpoint, origin: 'managed' },
    priceVersion: version,
  }))
}

/** Returns the entry of `endpoints` with its keys. Throws SupplyError `unreadable_key`. */
function openedEntry(masterKeys: SealingKeys, provider: Provider): JsonObject {
  return { ...provider.settings, ...openProviderSecrets(masterKeys, provider) }
}

/** Returns the keys of a provider. Throws SupplyError `unreadable_key`. */
export function openProviderSecrets(
  masterKeys: SealingKeys,
  { name, secretsSealed }: Pick<Provider, 'name' | 'secretsSealed'>,
): ProviderSecrets {
  if (secretsSealed === null) return {}
  return JSON.parse(openSupplyKey(masterKeys, secretsSealed, ownerOf(name))) as ProviderSecrets
}

const ownerOf = (name: string) => ({ ownerId: name, purpose: 'provider_key' }) as const

/** A new version of a provider. */
export interface ProviderChange {
  readonly name: string
  /** Null removes the provider with its keys. */
  readonly settings: JsonObject | null
  /** All keys that the provider has from now on. */
  readonly secrets: ProviderSecrets
  readonly reason: string
}

/**
 * Writes a new version, in a transaction that holds the lock of `lockProvider`. All nodes use it within a second.
 * Returns the version.
 */
export async function writeProvider(
  sql: Sql,
  masterKeys: SealingKeys,
  { name, settings, secrets, reason }: ProviderChange,
): Promise<number> {
  const hasSecrets = settings !== null && Object.keys(secrets).length > 0
  const sealed = hasSecrets ? sealSecret(masterKeys, JSON.stringify(secrets), ownerOf(name)) : null
  const { version } = await queryRow<{ version: number }>(sql, WRITE_PROVIDER, [name, sealed])
  await sql.query('INSERT INTO provider_version (name, version, settings, reason) VALUES ($1, $2, $3, $4)', [
    name,
    version,
    settings === null ? null : JSON.stringify(settings),
    reason,
  ])
  await bumpControlVersion(sql, 'supply')
  return version
}

const WRITE_PROVIDER = `
  INSERT INTO provider AS p (name, version, secrets_sealed) VALUES ($1, 1, $2)
  ON CONFLICT (name) DO UPDATE SET version = p.version + 1, secrets_sealed = excluded.secrets_sealed
  RETURNING version`

/** Returns the entries of `models` in the settings of a provider. */
export function modelEntriesOf({ models }: JsonObject): readonly JsonObject[] {
  return Array.isArray(models) ? models.filter(isJsonObject) : []
}

/**
 * Whether two versions of settings name different addresses. A stored key goes to the address that it was stored for only, so that
 * nobody reads it by changing that: nor by another tenant's path at the same host, nor unencrypted on the way.
 */
export function isElsewhere(before: JsonObject, after: JsonObject): boolean {
  return addressOf(before) !== addressOf(after)
}

function addressOf({ base_url: text }: JsonObject): string | undefined {
  const url = typeof text === 'string' ? URL.parse(text) : null
  return url === null ? undefined : `${url.origin}${url.pathname.replace(/\/$/, '')}`
}

/** A value that differs. */
export interface Difference {
  /** Such as `models[gpt-6-luna].price_per_million_usd.input`: items of a list of objects have their id. */
  readonly path: string
  /** Undefined: it is new. */
  readonly before: unknown
  /** Undefined: it is gone. */
  readonly after: unknown
}

/** Returns what differs between two versions of settings, in the order of the later one. */
export function differencesOf(before: unknown, after: unknown, path = ''): Difference[] {
  const [former, later] = [membersOf(before), membersOf(after)]
  if (former === undefined || later === undefined) {
    const isSame = textOf(before) === textOf(after)
    return isSame ? [] : [{ path, before, after }]
  }
  const names = new Set([...later.keys(), ...former.keys()])
  return [...names].flatMap(name => {
    const isInList = Array.isArray(after) || Array.isArray(before)
    const inner = isInList ? `${path}[${name}]` : path === '' ? name : `${path}.${name}`
    return differencesOf(former.get(name), later.get(name), inner)
  })
}

/** A file may write a number where the console writes its decimal text. Both mean the same. */
function textOf(value: unknown): string {
  return typeof value === 'string' || typeof value === 'number' ? String(value) : JSON.stringify(value)
}

/** Returns the members of an object, or the items of a list of objects by their ids; undefined for other values. */
function membersOf(value: unknown): ReadonlyMap<string, unknown> | undefined {
  if (typeof value !== 'object' || value === null) return undefined
  if (!Array.isArray(value)) return new Map(Object.entries(value))
  const ids = value.map(item => (item as { id?: unknown } | null)?.id)
  if (!ids.every(id => typeof id === 'string') || new Set(ids).size !== ids.length) return undefined
  return new Map(value.map((item, index) => [ids[index] as string, item]))
}
