import type { Dialect } from './conversation.ts'
import type { KeyHeader, Timeouts, UpstreamQuirks } from './offer.ts'

/** The quirks to assume for an OpenAI-compatible server: requests in this form suit most of them. */
export const standardQuirks: UpstreamQuirks = {
  maxTokensField: 'max_tokens',
  developerToSystem: true,
  streamOptions: true,
  forwardFields: [],
  dropFields: [],
  toolCallIds: 'any',
  hidesReasoning: false,
  base64Embeddings: true,
  keyHeader: 'authorization',
}

/**
 * Whether the API at this address hides reasoning in the total of its reports: see UpstreamQuirks. xAI also reports
 * it as a detail (sub2api issue 5771), Gemini's OpenAI layer only in the total (Google's forum, topic 127400).
 */
export function hidesReasoningAt(baseUrl: string): boolean {
  return HIDING_HOSTS.test(new URL(baseUrl).hostname)
}

/** The header in which the vendors of a dialect expect the key. Azure has its own for OpenAI's dialects. */
export function keyHeaderAt(baseUrl: string, speaks: Dialect): KeyHeader {
  if (speaks === 'messages') return 'x-api-key'
  if (speaks === 'gemini') return 'x-goog-api-key'
  return AZURE_HOSTS.test(new URL(baseUrl).hostname) ? 'api-key' : 'authorization'
}

/** Returns the region in an address of Bedrock; null if there is none. */
export function awsRegionIn(baseUrl: string): string | null {
  return AWS_HOSTS.exec(new URL(baseUrl).hostname)?.[1] ?? null
}

const AWS_HOSTS = /^bedrock-[a-z-]{1,20}[.]([a-z0-9-]{1,40})[.](?:amazonaws[.]com|api[.]aws)$/
const AZURE_HOSTS = /[.](openai|services[.]ai|cognitiveservices)[.]azure[.](com|us)$/
const HIDING_HOSTS = /^(api\.x\.ai|([a-z0-9-]+-)?(generativelanguage|aiplatform)(\.[a-z0-9-]+\.rep)?\.googleapis\.com)$/

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

/** A model may think for minutes while its server sends only signs of life. Codex waits equally long. */
export const THINKING_MS = 300_000

/** The servers of hosters get no time to think in silence: other servers can take over, and most models of hosters show what they think. */
export const cloudTimeouts: Timeouts = { ...standardTimeouts, thinkingMs: THINKING_MS }

/** A local server may have to load the model first. A large model on a slow disk takes minutes. */
export const localTimeouts: Timeouts = { ...cloudTimeouts, firstTokenMs: 180_000, idleMs: 60_000 }
