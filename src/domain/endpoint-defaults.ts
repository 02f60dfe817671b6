import type { Dialect, Timeouts } from './offer.ts'

/** The dialect that most OpenAI-compatible servers understand. */
export const standardDialect: Dialect = {
  maxTokensField: 'max_tokens',
  developerRole: true,
  streamOptions: true,
  dropFields: [],
  toolCallIds: 'any',
  keyHeader: 'authorization',
}

export const standardTimeouts: Timeouts = { connectMs: 3_000, firstTokenMs: 60_000, idleMs: 30_000, totalMs: 600_000 }

/** A local server may have to load the model first. A large model on a slow disk takes minutes. */
export const localTimeouts: Timeouts = { ...standardTimeouts, firstTokenMs: 180_000, idleMs: 60_000 }
