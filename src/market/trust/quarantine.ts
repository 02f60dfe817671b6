import type { ChangeEvidence } from './change-evidence.ts'

/**
 * The signals that may prove a cheat. Each is fed by audits of its own, so they are independent if a hoster is honest.
 */
export const signalKinds = ['meter', 'canary', 'fingerprint', 'agreement', 'sampling', 'shadow'] as const
export type SignalKind = (typeof signalKinds)[number]

/** What each signal compares, in a sentence for everybody. */
export const signalMeanings: Readonly<Record<SignalKind, string>> = {
  meter: 'The reported tokens of 32 requests against the tokens that the gateway counted, and the ratio of the model.',
  canary: 'Prompts with known answers, which arrive like those of customers.',
  fingerprint: 'The probabilities of the next tokens against those of other servers of the model.',
  agreement: 'The answers at temperature 0 against those of other servers of the model.',
  sampling: 'Several answers at temperature 1 against as many of a reference.',
  shadow: 'Answers to 32 requests, of customers that share them and of the gateway, against those of a reference.',
}

export type Signals = Readonly<Partial<Record<SignalKind, ChangeEvidence>>>

/** One signal alone is a proof below this p-value. */
export const PROOF_P = 1e-6
/** Two signals are a proof if both are below this p-value. */
export const PAIR_P = 1e-3

/**
 * Returns the signals that prove a cheat; empty without proof. One signal with p < 1e-6, or two with p < 1e-3 each. For
 * an honest hoster the probability of a quarantine over its whole life is at most 6 x 1e-6 + 15 x 1e-6 = 2.1e-5, as far
 * as the assumptions of the tests hold.
 */
export function provenBy(signals: Signals): readonly SignalKind[] {
  const below = (limit: number) => signalKinds.filter(kind => (signals[kind]?.p ?? 1) < limit)
  const pair = below(PAIR_P)
  return pair.length >= 2 ? pair : below(PROOF_P)
}
