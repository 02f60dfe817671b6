import ipaddr from 'ipaddr.js'
import { type AuditAction, noteAction } from '../base/db/audit-log.ts'
import { ApiError } from '../base/domain/errors.ts'
import { billedCost, usd } from '../base/domain/money.ts'
import type { Offer } from '../base/domain/offer.ts'
import { type ProviderSecrets, providerSecrets } from '../base/domain/provider-secrets.ts'
import { sayRefusal } from '../base/domain/refusals.ts'
import type { Said } from '../base/domain/said.ts'
import type { SealingKeys } from '../base/domain/sealing-keys.ts'
import { SupplyError } from '../base/domain/supply-error.ts'
import { elementAt } from '../base/runtime/collections.ts'
import type { JsonObject } from '../base/runtime/json-object.ts'
import { listServedModels } from '../market/supply/providers/list-models.ts'
import { knownEntriesAt } from '../market/supply/providers/new-models.ts'
import { type FindInLibrary, loadPriceLibrary, priceLibrary } from '../market/supply/providers/price-library.ts'
import { providerPresets } from '../market/supply/providers/provider-presets.ts'
import {
  differencesOf,
  isElsewhere,
  listProviders,
  lockProvider,
  managedOffers,
  modelEntriesOf,
  openProviderSecrets,
  type Provider,
  type ReadEndpoint,
  writeProvider,
} from '../market/supply/providers/providers.ts'
import type {
  OperatorProviders,
  ProviderPresetList,
  ProviderTrial,
  parseAskedProvider,
  parseNewProvider,
  parseProviderChange,
  parseProviderRemoval,
  parseProviderSwitch,
  parseTriedProvider,
  RefreshedModels,
  ServedModels,
  WrittenProvider,
} from '../wire/api/operator/providers.ts'
import { createModelRefresh, type ModelRefreshDeps } from './model-refresh.ts'
import { type Actor, act } from './operator-action.ts'
import { type ShowProvidersDeps, showProviders } from './show-providers.ts'

/** Sends one small request to an offer, without a customer and without money. Never rejects. */
export type TryOffer = (
  offer: Offer,
) => Promise<Pick<ProviderTrial, 'problem' | 'text' | 'input_tokens' | 'output_tokens' | 'total_ms'>>

/**
 * The servers of the operator and the clouds, as the pages of operators read and change them. Every change is a version and an
 * entry of the audit log, in one transaction. All methods reject with ApiError.
 */
export interface OperatorProviderService {
  list(): Promise<OperatorProviders>
  presets(): ProviderPresetList
  create(actor: Actor, order: ReturnType<typeof parseNewProvider>): Promise<WrittenProvider>
  change(actor: Actor, name: string, order: ReturnType<typeof parseProviderChange>): Promise<WrittenProvider>
  /** Enables or disables a provider or one of its models. Running requests end as they began. */
  switch(actor: Actor, name: string, order: ReturnType<typeof parseProviderSwitch>): Promise<WrittenProvider>
  remove(actor: Actor, name: string, order: ReturnType<typeof parseProviderRemoval>): Promise<WrittenProvider>
  /** Asks the server which models it has. */
  servedModels(order: ReturnType<typeof parseAskedProvider>): Promise<ServedModels>
  /** Asks the server of a provider for new models, which its rules add or propose. */
  refreshModels(actor: Actor, name: string): Promise<RefreshedModels>
  /** Sends one small request to a model of the settings. */
  tryModel(order: ReturnType<typeof parseTriedProvider>): Promise<ProviderTrial>
}

export interface OperatorProviderDeps extends ShowProvidersDeps, Omit<ModelRefreshDeps, 'library'> {
  readonly tryOffer: TryOffer
  /** Lets this node use a change at once, so that the next answer shows it. The others notice it within a second. */
  readonly noticeChanges: () => Promise<void>
}

export function createOperatorProviders(deps: OperatorProviderDeps): OperatorProviderService {
  const { sql, pool, masterKeys, readEndpoint, namesInFile } = deps
  let loading: Promise<FindInLibrary> | undefined
  const library = () => {
    loading ??= loadPriceLibrary()
    return loading
  }
  const refresh = createModelRefresh({ ...deps, library })
  /** Writes what `change` makes of the present state. */
  const write = async (actor: Actor, name: string, change: (before: Provider | undefined) => Changed) => {
    const written = await act(pool, actor, async sql => {
      const before = await lockProvider(sql, name)
      const { action, settings, secrets, reason } = change(before)
      const version = await writeProvider(sql, masterKeys, { name, settings, secrets, reason })
      const replaced = settings === null ? [] : replacedSecrets(before && openSecretsOf(masterKeys, before), secrets)
      await noteAction(sql, {
        action,
        personId: actor.personId,
        keyId: actor.keyId,
        subject: name,
        detail: {
          reason,
          version,
          changes: differencesOf(before?.settings ?? {}, settings ?? {}).slice(0, DIFFERENCES_MAX),
          ...(replaced.length > 0 && { keys_replaced: replaced }),
        },
        address: actor.address,
      })
      return { name, version }
    })
    await deps.noticeChanges()
    return written
  }
  /** Refuses settings that cannot be used, before anything is written. */
  const check = (settings: JsonObject, secrets: ProviderSecrets) => {
    refuseSecretsIn(settings)
    const { name, base_url: baseUrl } = settings
    if (typeof name === 'string' && namesInFile().has(name))
      throw refusal(sayRefusal('refusal.provider_in_file', { name }), 'settings.name')
    if (typeof baseUrl === 'string') refuseLinkLocal(baseUrl)
    return readOr400(readEndpoint, { ...settings, ...secrets })
  }
  /** The keys that were sent, and the stored ones while the address is that of the stored settings. */
  const secretsFor = (before: Provider | undefined, settings: JsonObject, sent: Sent = {}): ProviderSecrets => {
    const given = definedOf(sent)
    if (before?.settings == null || Object.keys(given).length > 0) return given
    if (before.secretsSealed === null) return {}
    if (isElsewhere(before.settings, settings)) throw refusal(sayRefusal('refusal.provider_moved'), 'settings.base_url')
    return openSecretsOf(masterKeys, before)
  }
  const secretsOfAsked = async (order: ReturnType<typeof parseAskedProvider>) => {
    const stored =
      order.name === undefined ? undefined : (await listProviders(sql)).find(({ name }) => name === order.name)
    return secretsFor(stored, order.settings, order.secrets)
  }
  return {
    list: async () => ({ library: priceLibrary, data: await showProviders(deps, await library()) }),
    presets: () => ({
      library: priceLibrary,
      data: providerPresets.map(({ id, title, settings, secrets }) => ({ id, title, settings, secrets: [...secrets] })),
    }),
    create(actor, { settings, secrets, reason }) {
      const given = definedOf(secrets)
      check(settings, given)
      const name = settings.name as string
      return write(actor, name, before => {
        if (before?.settings != null) throw refusal(sayRefusal('refusal.provider_exists', { name }), 'settings.name')
        return { action: 'provider.created', settings, secrets: given, reason }
      })
    },
    change: (actor, name, { settings, secrets, reason, version }) =>
      write(actor, name, before => {
        requireVersion(before, version)
        if (settings.name !== name) throw refusal(sayRefusal('refusal.provider_name_stays'))
        const kept = secretsFor(before, settings, secrets)
        check(settings, kept)
        return { action: 'provider.changed', settings, secrets: kept, reason }
      }),
    switch: (actor, name, { is_enabled: isEnabled, model, reason }) =>
      write(actor, name, before => {
        if (before?.settings == null) throw noProvider()
        const settings = switched(before.settings, model, isEnabled)
        const action = isEnabled ? 'provider.enabled' : 'provider.disabled'
        return { action, settings, secrets: openSecretsOf(masterKeys, before), reason }
      }),
    remove: (actor, name, { version, reason }) =>
      write(actor, name, before => {
        requireVersion(before, version)
        return { action: 'provider.removed', settings: null, secrets: {}, reason }
      }),
    async servedModels(order) {
      const secrets = await secretsOfAsked(order)
      // An entry needs a model to be read.
      const offers = check({ ...order.settings, name: order.settings.name ?? 'test', models: [EXAMPLE_MODEL] }, secrets)
      const { endpoint, speaks } = elementAt(offers, 0)
      const served = await listServedModels(endpoint, speaks?.[0] ?? 'chat').catch(refuseSupply)
      const entryOf = knownEntriesAt(endpoint.baseUrl, await library())
      const data = served?.map(model => {
        const { entry } = entryOf(model)
        return { id: model.id, entry, has_price: entry.price_per_million_usd !== undefined }
      })
      return { data: data ?? null }
    },
    async refreshModels(actor, name) {
      const found = await refresh.refresh(name, actor).catch(refuseSupply)
      if (found === undefined) throw noProvider()
      await deps.noticeChanges()
      return { applied: [...found.applied], proposed: [...found.proposed] }
    },
    async tryModel(order) {
      const secrets = await secretsOfAsked(order)
      const { settings } = order
      const chosen = modelEntriesOf(settings).find(({ id }) => id === order.model)
      if (chosen === undefined) throw refusal(sayRefusal('refusal.settings_lack_model', { model: order.model }))
      const { cost_per_million_usd: cost = chosen.price_per_million_usd } = chosen
      const model = { ...chosen, enabled: true, price_per_million_usd: cost }
      const offer = elementAt(check({ ...settings, enabled: true, models: [model] }, secrets), 0)
      const tried = await deps.tryOffer(offer)
      const { input_tokens: input, output_tokens: output } = tried
      const costNanos = input === null || output === null ? null : billedCost(offer.price, input, output, null).nanos
      return { ...tried, cost_usd: costNanos === null ? null : usd(costNanos) }
    },
  }
}

interface Changed {
  readonly action: Extract<AuditAction, `provider.${string}`>
  readonly settings: JsonObject | null
  readonly secrets: ProviderSecrets
  readonly reason: string
}

type Sent = { readonly [Name in keyof ProviderSecrets]?: string | undefined }

const DIFFERENCES_MAX = 50
const EXAMPLE_MODEL = { id: 'example', price_per_million_usd: { input: '0', output: '0' } }

function definedOf(secrets: Sent = {}): ProviderSecrets {
  return Object.fromEntries(Object.entries(secrets).filter(([, value]) => value !== undefined))
}

function openSecretsOf(masterKeys: SealingKeys, provider: Provider): ProviderSecrets {
  try {
    return openProviderSecrets(masterKeys, provider)
  } catch (error) {
    return refuseSupply(error)
  }
}

function replacedSecrets(before: ProviderSecrets = {}, after: ProviderSecrets): string[] {
  return providerSecrets.filter(name => before[name] !== after[name])
}

/** A key in the settings would be stored and shown as any other setting. */
function refuseSecretsIn(settings: JsonObject): void {
  const name = providerSecrets.find(secret => settings[secret] !== undefined)
  if (name !== undefined) throw refusal(`"settings.${name}" is a key. Send it in "secrets".`)
}

/** The addresses of a machine's own link have the keys of its cloud, and no model. */
function refuseLinkLocal(baseUrl: string): void {
  const host = URL.parse(baseUrl)
    ?.hostname.replace(/\.$/, '')
    .replace(/^\[|\]$/g, '')
  if (host === undefined) return
  const address = ipaddr.isValid(host) ? ipaddr.process(host) : null
  if (address?.range() === 'linkLocal' || metadataHosts.has(address?.toString() ?? host))
    throw refusal(sayRefusal('refusal.link_local', { host }), 'settings.base_url')
}

/** Where clouds serve the keys of a machine: GCP, AWS over IPv6, Alibaba, Azure. */
const metadataHosts = new Set([
  'metadata',
  'metadata.google.internal',
  'fd00:ec2::254',
  '100.100.100.200',
  '168.63.129.16',
])

function readOr400(readEndpoint: ReadEndpoint, entry: JsonObject): readonly Offer[] {
  try {
    return managedOffers(readEndpoint, entry, 1)
  } catch (error) {
    return refuseSupply(error)
  }
}

function refuseSupply(error: unknown): never {
  if (!(error instanceof SupplyError)) throw error
  const { message: text, codes, setting } = error
  // A key is sent apart from the settings.
  const isSecret = (providerSecrets as readonly (string | null)[]).includes(setting)
  throw refusal({ text, codes }, setting === null ? 'settings' : `${isSecret ? 'secrets' : 'settings'}.${setting}`)
}

const refusal = (message: Said | string, param = 'settings') => new ApiError('invalid_value', { message, param })
const noProvider = () => new ApiError('not_found', { message: sayRefusal('refusal.no_provider') })

function requireVersion(before: Provider | undefined, version: number): void {
  if (before?.settings == null) throw noProvider()
  if (before.version !== version) throw new ApiError('changed_meanwhile')
}

function switched(settings: JsonObject, model: string | undefined, isEnabled: boolean): JsonObject {
  if (model === undefined) return { ...settings, enabled: isEnabled }
  const models = modelEntriesOf(settings)
  if (!models.some(({ id }) => id === model)) throw refusal(sayRefusal('refusal.provider_lacks_model', { model }))
  return { ...settings, models: models.map(each => (each.id === model ? { ...each, enabled: isEnabled } : each)) }
}
