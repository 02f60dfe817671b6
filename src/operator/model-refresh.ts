import { noteAction } from '../base/db/audit-log.ts'
import { type Pool, type Sql, transaction } from '../base/db/pool.ts'
import type { SealingKeys } from '../base/domain/sealing-keys.ts'
import { SupplyError } from '../base/domain/supply-error.ts'
import { elementAt } from '../base/runtime/collections.ts'
import type { JsonObject } from '../base/runtime/json-object.ts'
import type { Log } from '../base/runtime/log.ts'
import type { Clock } from '../base/runtime/scheduler.ts'
import { listServedModels, type ServedModel } from '../market/supply/providers/list-models.ts'
import { type KnownEntry, knownEntriesAt, modelRulesOf, newModelsOf } from '../market/supply/providers/new-models.ts'
import type { FindInLibrary } from '../market/supply/providers/price-library.ts'
import {
  listProviders,
  lockProvider,
  modelEntriesOf,
  openProviderSecrets,
  type Provider,
  type ReadEndpoint,
  writeProvider,
} from '../market/supply/providers/providers.ts'
import { type Actor, act } from './operator-action.ts'

/** Asks servers for new models, and sells or proposes those that the rules of their provider name. */
export interface ModelRefresh {
  /** Asks the server of one provider. Rejects with SupplyError when it cannot be asked. Undefined: there is no such provider. */
  refresh(name: string, actor: Actor | null): Promise<FoundModels | undefined>
  /** Asks all servers with rules, one after another. One that does not answer is shown with the provider. */
  refreshAll(): Promise<void>
}

/** The ids of new models. */
export interface FoundModels {
  readonly applied: readonly string[]
  readonly proposed: readonly string[]
}

export interface ModelRefreshDeps {
  readonly pool: Pool
  readonly masterKeys: SealingKeys
  readonly readEndpoint: ReadEndpoint
  readonly library: () => Promise<FindInLibrary>
  readonly clock: Pick<Clock, 'epochMs'>
  readonly log: Pick<Log, 'warn'>
}

/** What a server has, and what is known of it. */
interface Answer {
  readonly served: readonly ServedModel[]
  readonly entryOf: KnownEntry
}

const EXAMPLE_MODEL = { id: 'example', price_per_million_usd: { input: '0', output: '0' } }
/** A wrong pattern must not add thousands. */
const NEW_MAX = 500
const PROBLEM_CHARACTERS_MAX = 500

export function createModelRefresh(deps: ModelRefreshDeps): ModelRefresh {
  const { pool, masterKeys, readEndpoint, clock, log } = deps

  const ask = async (provider: Provider): Promise<Answer> => {
    const entry = { ...provider.settings, ...openProviderSecrets(masterKeys, provider), enabled: true }
    // An entry needs a model to be read.
    const { endpoint, speaks } = elementAt(readEndpoint({ ...entry, models: [EXAMPLE_MODEL] }), 0)
    const served = await listServedModels(endpoint, speaks?.[0] ?? 'chat')
    if (served === null) throw new SupplyError('unreachable', 'Servers of this kind do not list their models.')
    return { served, entryOf: knownEntriesAt(endpoint.baseUrl, await deps.library()) }
  }

  const write = async (sql: Sql, name: string, { served, entryOf }: Answer, actor: Actor | null) => {
    const provider = await lockProvider(sql, name)
    if (provider?.settings == null) return { applied: [], proposed: [] }
    const { settings } = provider
    const secrets = openProviderSecrets(masterKeys, provider)
    const isValid = (model: JsonObject) => {
      try {
        readEndpoint({ ...settings, ...secrets, models: [model] })
        return true
      } catch (error) {
        if (error instanceof SupplyError) return false
        throw error
      }
    }
    const found = newModelsOf(settings, served, entryOf)
    const applied = found.applied.filter(isValid).slice(0, NEW_MAX)
    const proposed = found.proposed.filter(isValid).slice(0, NEW_MAX)
    const [appliedIds, proposedIds] = [idsOf(applied), idsOf(proposed)]
    const { rows } = await sql.query<{ proposed: JsonObject[] }>(
      'SELECT proposed_models AS proposed FROM provider WHERE name = $1',
      [name],
    )
    const before = new Set(idsOf(rows[0]?.proposed ?? []))
    await sql.query(NOTE_ANSWER, [name, JSON.stringify(proposed), new Date(clock.epochMs()), null])
    const by = { personId: actor?.personId ?? null, keyId: actor?.keyId ?? null, address: actor?.address ?? null }
    const reason = 'New models by rule.'
    let version: number | undefined
    if (applied.length > 0) {
      const models = [...modelEntriesOf(settings), ...applied]
      version = await writeProvider(sql, masterKeys, { name, settings: { ...settings, models }, secrets, reason })
    }
    // Last: entries of the audit log wait for each other.
    if (version !== undefined) {
      const changes = applied.map(model => ({ path: `models[${model.id}]`, before: undefined, after: model }))
      const detail = { reason, version, changes: changes.slice(0, 50), added: appliedIds }
      await noteAction(sql, { action: 'provider.changed', subject: name, detail, ...by })
    }
    const news = proposedIds.filter(id => !before.has(id))
    if (news.length > 0)
      await noteAction(sql, { action: 'provider.models_proposed', subject: name, detail: { models: news }, ...by })
    return { applied: appliedIds, proposed: proposedIds }
  }

  const refresh: ModelRefresh['refresh'] = async (name, actor) => {
    const provider = (await listProviders(pool)).find(each => each.name === name)
    if (provider === undefined) return undefined
    try {
      const answer = await ask(provider)
      const work = (sql: Sql) => write(sql, name, answer, actor)
      return await (actor === null ? transaction(pool, work) : act(pool, actor, work))
    } catch (error) {
      if (!(error instanceof SupplyError)) throw error
      const problem = error.message.slice(0, PROBLEM_CHARACTERS_MAX).toWellFormed()
      await pool.query(NOTE_ANSWER, [name, null, new Date(clock.epochMs()), problem])
      throw error
    }
  }

  return {
    refresh,
    async refreshAll() {
      for (const { name, settings } of await listProviders(pool)) {
        if (settings === null || modelRulesOf(settings).length === 0) continue
        await refresh(name, null).catch((error: unknown) => {
          if (!(error instanceof SupplyError)) throw error
          log.warn({ provider: name, problem: error.message }, 'a server was not asked for new models')
        })
      }
    },
  }
}

// A server that does not answer keeps what it had proposed.
const NOTE_ANSWER =
  'UPDATE provider SET proposed_models = coalesce($2, proposed_models), asked_at = $3, ask_problem = $4 WHERE name = $1'

const idsOf = (models: readonly JsonObject[]) => models.map(({ id }) => String(id))
