import type { Offer } from '../../../base/domain/offer.ts'
import type { Log } from '../../../base/runtime/log.ts'
import type { Scheduler } from '../../../base/runtime/scheduler.ts'
import {
  askLocalServers,
  commonLocalServers,
  type DetectedLocal,
  type DetectLocalOptions,
  type LocalAnswer,
  type LocalServer,
} from './detect-local.ts'

export interface LocalWatchOptions extends DetectLocalOptions {
  /** What was found at start. */
  readonly found: readonly DetectedLocal[]
  /** The mean time between two looks. */
  readonly intervalMs: number
  /** Called with the offers of all local servers when they have changed. */
  readonly onChange: (offers: readonly Offer[]) => void
  readonly scheduler: Pick<Scheduler, 'after'>
  /** Uniform in [0, 1). */
  readonly random: () => number
  readonly log: Pick<Log, 'info'>
}

/**
 * A model that is missing in this many lists in a row is no longer offered. One list may be from a server that starts.
 */
const MISSED_MAX = 2
/** The looks between two questions to a port where something else answers double up to this. */
const OTHER_EVERY_MAX = 64
/** Each wait is up to a fifth shorter or longer, so that several gateways do not ask at the same time. */
const JITTER = 0.2

/**
 * Looks for models that appear at local servers, or vanish, after the start. A server that does not answer with a
 * list of models changes nothing: its models stay, and requests for them fail over like others.
 */
export class LocalWatch {
  readonly #options: LocalWatchOptions
  readonly #servers: readonly LocalServer[]
  readonly #known = new Map<string, { offer: Offer; missed: number }>()
  /** For each server where something else answers: after how many looks it is asked again, and how many are left. */
  readonly #others = new Map<string, { every: number; left: number }>()
  #cancel: () => void = () => {}
  #isStopped = false

  constructor(options: LocalWatchOptions) {
    this.#options = options
    this.#servers = options.servers ?? commonLocalServers
    for (const { offers } of options.found) for (const offer of offers) this.#note(offer)
  }

  start(): void {
    const { intervalMs, random, scheduler } = this.#options
    const waitMs = intervalMs * (1 - JITTER + 2 * JITTER * random())
    this.#cancel = scheduler.after(waitMs, async () => {
      await this.look()
      if (!this.#isStopped) this.start()
    })
  }

  stop(): void {
    this.#isStopped = true
    this.#cancel()
  }

  /** Asks the servers once. Never rejects. */
  async look(): Promise<void> {
    const due = this.#servers.filter(({ name }) => this.#isDue(name))
    const known = new Map(Array.from(this.#known.values(), ({ offer }) => [offer.offerId, offer] as const))
    const answers = await askLocalServers({ ...this.#options, servers: due, known })
    if (this.#isStopped) return
    let hasChanged = false
    for (const [name, answer] of answers) if (this.#update(name, answer)) hasChanged = true
    if (hasChanged) this.#options.onChange(Array.from(this.#known.values(), ({ offer }) => offer))
  }

  #isDue(name: string): boolean {
    const other = this.#others.get(name)
    if (other === undefined || other.left === 0) return true
    other.left--
    return false
  }

  /** Returns whether the offers have changed. */
  #update(name: string, answer: LocalAnswer): boolean {
    if (answer.kind === 'other' || answer.kind === 'locked') {
      // A program that has nothing to do with models should not find a question in its log every half minute.
      const every = Math.min((this.#others.get(name)?.every ?? 1) * 2, OTHER_EVERY_MAX)
      this.#others.set(name, { every, left: every })
      return false
    }
    this.#others.delete(name)
    return answer.kind === 'models' && this.#compare(name, answer.offers)
  }

  #compare(name: string, listed: readonly Offer[]): boolean {
    const { log } = this.#options
    const added = listed.filter(offer => this.#note(offer))
    if (added.length > 0) log.info({ server: name, models: modelsOf(added) }, 'a local server has new models')
    const isListed = new Set(listed.map(({ offerId }) => offerId))
    const gone: Offer[] = []
    for (const [offerId, known] of this.#known) {
      if (known.offer.endpoint.endpointId !== name || isListed.has(offerId) || ++known.missed < MISSED_MAX) continue
      this.#known.delete(offerId)
      gone.push(known.offer)
    }
    if (gone.length > 0)
      log.info(
        { server: name, models: modelsOf(gone) },
        'a local server has no longer these models; they are not offered',
      )
    return added.length > 0 || gone.length > 0
  }

  /** Returns whether the offer is new, or differs from the known one. */
  #note(offer: Offer): boolean {
    const known = this.#known.get(offer.offerId)
    const isSame =
      known?.offer.contextTokens === offer.contextTokens && known.offer.upstreamModel === offer.upstreamModel
    if (isSame) known.missed = 0
    else this.#known.set(offer.offerId, { offer, missed: 0 })
    return !isSame
  }
}

const LOGGED_MAX = 20

/** The models for the log; of a long list only the first ones. */
function modelsOf(offers: readonly Offer[]): string[] {
  const models = offers.slice(0, LOGGED_MAX).map(({ modelId }) => modelId)
  return offers.length > LOGGED_MAX ? [...models, `and ${offers.length - LOGGED_MAX} more`] : models
}
