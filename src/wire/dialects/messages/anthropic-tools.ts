import { isJsonObject, type JsonObject } from '../../../base/runtime/json-object.ts'

/** The tools that still need a beta: those of a computer before its toolset, and what was published with the first of them. */
const betaTool = /^computer_(\d{4})(\d{2})(\d{2})$/
const firstBetaTool = /^(?:bash|text_editor)_20241022$/

/** Returns the header that names the betas which these tools need; none if they need none. */
export function betaHeaders(tools: unknown): readonly string[] {
  if (!Array.isArray(tools)) return []
  const betas = new Set(tools.flatMap(betaOf))
  return betas.size === 0 ? [] : [`anthropic-beta: ${[...betas].join(',')}`]
}

function betaOf(tool: unknown): string[] {
  const type = typeOf(tool)
  if (firstBetaTool.test(type)) return ['computer-use-2024-10-22']
  const date = betaTool.exec(type)
  return date === null ? [] : [`computer-use-${date[1]}-${date[2]}-${date[3]}`]
}

/**
 * Tokens that Anthropic adds to the prompt, rounded up from its price list of November 2026. Tools of its models are short
 * in the request, but have a long definition at the server.
 */
const addedTokens = {
  /** 244 to 325. */
  bash: 512,
  /** 700. */
  text_editor: 1_024,
  /** 735, and up to 499 more in the system prompt. */
  computer: 1_536,
  /** About 4,590. */
  computer_toolset: 6_144,
  /** About 6,670. */
  browser_toolset: 8_192,
  /** Not published. Its schema has six commands. */
  memory: 2_048,
  /** Not published. */
  tool_search_tool_bm25: 1_024,
  tool_search_tool_regex: 1_024,
} as const
/** For types that are not in the list: as the largest. */
const UNKNOWN_TOOL_TOKENS = 8_192

/**
 * Returns an upper bound of the tokens that Anthropic adds to a prompt for the definitions of these tools. Holds cover its
 * instructions to use any tools: see domain/request-bounds.ts.
 */
export function addedToolTokens(tools: unknown): number {
  if (!Array.isArray(tools)) return 0
  let tokens = 0
  for (const tool of tools) tokens += definitionTokens(typeOf(tool))
  return tokens
}

function definitionTokens(type: string): number {
  if (type === '' || type === 'custom') return 0
  const family = type.replace(/_\d{8}$/, '')
  return Object.hasOwn(addedTokens, family) ? addedTokens[family as keyof typeof addedTokens] : UNKNOWN_TOOL_TOKENS
}

function typeOf(tool: unknown): string {
  return isJsonObject(tool) && typeof tool.type === 'string' ? tool.type : ''
}

/** For each document: instructions to cite. Anthropic only names it a slight increase. */
const CITATION_TOKENS = 1_024
/** A document is cut into sentences, each with its own mark. */
const CITED_BYTES_PER_TOKEN = 4

/** Whether the model may cite a document or search result. */
export function isCited({ citations }: JsonObject): boolean {
  return isJsonObject(citations) && citations.enabled === true
}

/** Returns an upper bound of the tokens that Anthropic adds to a document with so much text, so that the model can cite it. */
export function addedCitationTokens(citedBytes: number): number {
  return CITATION_TOKENS + Math.ceil(citedBytes / CITED_BYTES_PER_TOKEN)
}
