import { readFileSync } from 'node:fs'
import type { Offer } from '../../base/domain/offer.ts'
import { type ProviderSecrets, providerSecrets } from '../../base/domain/provider-secrets.ts'
import { SupplyError } from '../../base/domain/supply-error.ts'
import type { JsonObject } from '../../base/runtime/json-object.ts'
import { ConfigError } from './config.ts'
import { configuredOffers } from './configured-offers.ts'
import { managedPartOf } from './managed-settings.ts'
import { readSettings } from './read-settings.ts'
import { type ConfigProblem, readYaml, withPlainNumbers } from './read-yaml.ts'
import { type Environment, variablesIn, withSecretSources } from './secret-sources.ts'

/**
 * Turns an entry of `endpoints`, given as JSON, into offers as if switchyard.yaml had it; none if it is not enabled. Variables of the
 * environment are not replaced in it. Throws SupplyError `invalid_value` that names each wrong key and what is allowed.
 */
export function readEndpoint(entry: JsonObject): readonly Offer[] {
  const { google_service_account: account } = entry
  // Text of a browser must not name a file of this machine. `readManagedFile` reads those of files.
  if (typeof account === 'string' && !account.trim().startsWith('{'))
    throw new SupplyError(
      'invalid_value',
      '"google_service_account" must be the JSON of the key of a service account.',
      'google_service_account',
    )
  const problems: ConfigProblem[] = []
  // JSON is YAML. What the file would replace stays as it is.
  const text = JSON.stringify({ endpoints: [entry] }).replaceAll('${', () => '$${')
  const settings = readSettings(text, 'provider', {}, problems)
  if (settings === undefined || problems.length > 0) {
    const found = problems.map(({ key, message }) => ({ key: (key ?? '').replace(/^endpoints\[0\]\.?/, ''), message }))
    const texts = found.map(({ key, message }) => `${key === '' ? 'It' : `"${key}"`} ${message.replace(/\.$/, '')}.`)
    throw new SupplyError('invalid_value', texts.join(' '), found[0]?.key || null)
  }
  return configuredOffers(settings)
}

/** An entry of `endpoints` of a file, for a managed provider. */
export interface DeclaredProvider {
  readonly name: string
  readonly settings: JsonObject
  /** Those that the file sets. */
  readonly secrets: ProviderSecrets
}

/** What a YAML file says of what operators manage. */
export interface ManagedFile extends ReturnType<typeof managedPartOf> {
  readonly providers: readonly DeclaredProvider[]
  /** As it is written. Undefined: the file says nothing about price groups. */
  readonly priceGroups: unknown
}

/** Only `config apply` reads it: switchyard.yaml has no prices of customers. */
const PRICE_GROUPS = 'price_groups'

/**
 * Reads what operators manage from a YAML file, with `${NAME}` from the environment. Throws ConfigError with every problem and its
 * line.
 */
export function readManagedFile(text: string, where: string, given: Environment = process.env): ManagedFile {
  const problems: ConfigProblem[] = []
  const env = withSecretSources(given, variablesIn(text), problems)
  readSettings(text, where, env, problems, [PRICE_GROUPS])
  if (problems.length > 0) throw new ConfigError(problems)
  const { [PRICE_GROUPS]: priceGroups, ...written } = withPlainNumbers(
    readYaml(text, where, env).value ?? {},
  ) as JsonObject
  const providers = declaredProviders(written).map(each => ({ ...each, secrets: withKeyFile(each.secrets) }))
  return { ...managedPartOf(written), providers, priceGroups }
}

/** Returns the `endpoints` of a configuration that is valid. */
export function declaredProviders({ endpoints }: JsonObject): DeclaredProvider[] {
  const isSecret = ([key]: [string, unknown]) => (providerSecrets as readonly string[]).includes(key)
  return ((endpoints ?? []) as JsonObject[]).map(entry => {
    const members = Object.entries(entry)
    return {
      name: String(entry.name),
      settings: Object.fromEntries(members.filter(member => !isSecret(member))),
      secrets: Object.fromEntries(members.filter(isSecret)) as ProviderSecrets,
    }
  })
}

/** A key that the file names by its path is read here: other nodes have not the file. It was read before, to check it. */
function withKeyFile(secrets: ProviderSecrets): ProviderSecrets {
  const { google_service_account: account } = secrets
  if (account === undefined || account.trim().startsWith('{')) return secrets
  return { ...secrets, google_service_account: readFileSync(account.trim(), 'utf8') }
}
