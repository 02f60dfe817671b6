import type { Nanos } from '../../base/domain/money.ts'
import type { Offer } from '../../base/domain/offer.ts'

export interface AgentCaller {
  readonly hosterId: string
  readonly keyId: string
}

export interface HosterOfAgent {
  readonly name: string
  readonly state: string
  /** Its owners. */
  readonly ownerIds: readonly string[]
  /** The ids of its endpoints that are served by agents. */
  readonly endpointIds: readonly string[]
}

/** What the gateway knows of hosters, for the connections of their agents. */
export interface AgentDirectory {
  /** Throws or rejects with ApiError: 401 for an unknown key, 403 for one that may not serve. */
  authenticate(rawHeaders: readonly string[]): Promise<AgentCaller>
  /** Returns those of the keys that may still be used. */
  keysInUse(keyIds: readonly string[]): Promise<ReadonlySet<string>>
  hosterOf(hosterId: string): Promise<HosterOfAgent>
  /** Called when an agent of the endpoint is connected and takes requests. */
  onServing(endpointId: string): Promise<void>
  /** The current offers at an endpoint: the models with a price, if the hoster is active. */
  offersAt(endpointId: string): readonly Offer[]
  earningsOf(hosterId: string): Promise<{ readonly todayNanos: Nanos; readonly totalNanos: Nanos }>
  /** The ids of the nodes that are alive. */
  liveNodes(): Promise<readonly string[]>
}
