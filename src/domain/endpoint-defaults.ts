import type { Timeouts, UpstreamQuirks } from './offer.ts'

/** The quirks to assume for an OpenAI-compatible server: requests in this form suit most of them. */
export const standardQuirks: UpstreamQuirks = {
  maxTokensField: 'max_tokens',
  developerToSystem: true,
  streamOptions: true,
  forwardFields: [],
  dropFields: [],
  toolCallIds: 'any',
  keyHeader: 'authorization',
}

/**
 * The context of a model that its server does not report. Larger than Ollama's default, so that long prompts are not
 * refused here.
 */
export const ASSUMED_CONTEXT_TOKENS = 32_768

/** 200 ms for each token are 5 tokens a second, as on a processor without graphics. */
export const standardTimeouts: Timeouts = {
  connectMs: 3_000,
  firstTokenMs: 60_000,
  tokenMs: 200,
  idleMs: 30_000,
  totalMs: 600_000,
}

/** A local server may have to load the model first. A large model on a slow disk takes minutes. */
export const localTimeouts: Timeouts = { ...standardTimeouts, firstTokenMs: 180_000, idleMs: 60_000 }
