import { addCounts, aged, type LatencyCounts } from './latency.ts'
import { learnedLimit, NO_OTHERS, type OfferRecord, resultsOf, startAt } from './offer-record.ts'

/**
 * What one node, or several together, have learned of an offer. All times are relative to the moment of the report,
 * so that the clocks of the nodes do not matter.
 */
export interface LearnedOffer {
  /** The rest of the ejection, ms; 0 without one. */
  readonly ejectedForMs: number
  /** How long ago it began. */
  readonly ejectedSinceMs: number
  /** The ejections that are not forgiven yet. */
  readonly ejections: number
  /** The same of a pause that the server asked for. */
  readonly pausedForMs: number
  readonly pausedSinceMs: number
  readonly inFlight: number
  /** The results of the last minute. */
  readonly successes: number
  readonly failures: number
  /** How many requests at once the server takes; null if unknown. */
  readonly limit: number | null
  readonly latency: LatencyCounts | null
}

/** Returns what has changed since the last call, at most `max` offers. */
export function takeChanges(
  records: ReadonlyMap<string, OfferRecord>,
  max: number,
  nowMs: number,
): ReadonlyMap<string, LearnedOffer> {
  const changed = new Map<string, LearnedOffer>()
  for (const [offerId, record] of records) {
    if (!record.hasChanged) continue
    if (changed.size === max) break
    record.hasChanged = false
    changed.set(offerId, learnedOf(record, nowMs))
  }
  return changed
}

/** Returns what this node itself has learned of an offer. What it took from others is not passed on. */
function learnedOf(record: OfferRecord, nowMs: number): LearnedOffer {
  const isOwn = !record.isAdopted
  return {
    ejectedForMs: isOwn ? Math.max(0, Math.round(record.ejectedUntilMs - nowMs)) : 0,
    ejectedSinceMs: Math.round(nowMs - record.ejectedAtMs),
    ejections: isOwn ? record.ejections : 0,
    pausedForMs: record.adoptedPauseMs !== null ? 0 : Math.max(0, Math.round(record.pausedUntilMs - nowMs)),
    pausedSinceMs: Number.isFinite(record.pausedAtMs) ? Math.round(nowMs - record.pausedAtMs) : 0,
    inFlight: record.inFlight,
    ...resultsOf(record, nowMs),
    limit: learnedLimit(record.concurrency),
    latency: record.latency.counts(nowMs),
  }
}

/**
 * Adds what several nodes have learned, each `ageMs` ago. Counts are added. Of ejections and pauses, the longest holds.
 */
export function combineLearned(reports: readonly { offer: LearnedOffer; ageMs: number }[]): LearnedOffer {
  const now = reports.map(({ offer, ageMs }) => later(offer, ageMs))
  const ejected = now.reduce((a, b) => (b.ejectedForMs > a.ejectedForMs ? b : a))
  const paused = now.reduce((a, b) => (b.pausedForMs > a.pausedForMs ? b : a))
  const limits = now.flatMap(({ limit }) => limit ?? [])
  const latencies = now.flatMap(({ latency }) => latency ?? [])
  const sum = (value: (offer: LearnedOffer) => number) => now.reduce((total, offer) => total + value(offer), 0)
  return {
    ejectedForMs: ejected.ejectedForMs,
    ejectedSinceMs: ejected.ejectedSinceMs,
    ejections: ejected.ejections,
    pausedForMs: paused.pausedForMs,
    pausedSinceMs: paused.pausedSinceMs,
    inFlight: sum(({ inFlight }) => inFlight),
    successes: sum(({ successes }) => successes),
    failures: sum(({ failures }) => failures),
    limit: limits.length === 0 ? null : Math.max(...limits),
    latency: latencies.length === 0 ? null : addCounts(latencies),
  }
}

function later(offer: LearnedOffer, ms: number): LearnedOffer {
  return {
    ...offer,
    ejectedForMs: Math.max(0, offer.ejectedForMs - ms),
    ejectedSinceMs: offer.ejectedSinceMs + ms,
    pausedForMs: Math.max(0, offer.pausedForMs - ms),
    pausedSinceMs: offer.pausedSinceMs + ms,
    ...(ms > RESULTS_AGE_MS_MAX && { inFlight: 0, successes: 0, failures: 0 }),
    latency: offer.latency && aged(offer.latency, ms),
  }
}

/** A node reports within seconds of each change, so older numbers are those of a node that has stopped. */
const RESULTS_AGE_MS_MAX = 60_000

/**
 * Takes what the other nodes have learned into the record of this node. An ejection of theirs counts here for as long
 * as there, unless a request that this node sent after it began has succeeded. Null: the others report nothing.
 */
export function adopt(record: OfferRecord, learned: LearnedOffer | null, nowMs: number): void {
  record.latency.setOthers(nowMs, learned?.latency ?? null)
  record.others = learned === null ? NO_OTHERS : { atMs: nowMs, ...numbersOf(learned) }
  if (learned?.limit) startAt(record.concurrency, learned.limit)
  adoptEjection(record, learned, nowMs)
  adoptPause(record, learned, nowMs)
}

function numbersOf({ inFlight, successes, failures }: LearnedOffer) {
  return { inFlight, successes, failures }
}

function adoptEjection(record: OfferRecord, learned: LearnedOffer | null, nowMs: number): void {
  // Its own evidence decides.
  if (record.onTrial && !record.isAdopted) return
  const beganMs = nowMs - (learned?.ejectedSinceMs ?? 0)
  if (!learned?.ejectedForMs || record.lastSuccessSentMs >= beganMs) {
    // The nodes that ejected the offer have taken it back, or it will now be tried here.
    if (record.isAdopted && learned !== null && learned.ejectedForMs === 0)
      record.ejectedUntilMs = Math.min(record.ejectedUntilMs, nowMs)
    return
  }
  record.isAdopted = true
  record.onTrial = true
  record.ejectedAtMs = beganMs
  record.ejectedUntilMs = nowMs + learned.ejectedForMs
  record.ejections = Math.max(record.ejections, learned.ejections)
}

function adoptPause(record: OfferRecord, learned: LearnedOffer | null, nowMs: number): void {
  if (!learned?.pausedForMs) return
  const beganMs = nowMs - learned.pausedSinceMs
  if (record.lastSuccessSentMs >= beganMs) return
  const untilMs = nowMs + learned.pausedForMs
  if (untilMs <= record.pausedUntilMs) return
  record.pausedUntilMs = untilMs
  record.adoptedPauseMs = beganMs
}

/** The server has answered what this node sent after the pause began that it asked another node for. */
export function endAdoptedPause(record: OfferRecord): void {
  record.adoptedPauseMs = null
  record.pausedUntilMs = 0
}
