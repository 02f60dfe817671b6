import type { CacheHint, Conversation, Dialect, Part } from '../../../base/domain/conversation.ts'

/** What an upstream of another dialect cannot be asked. Named as the fields of a chat request. */
export interface UntranslatableFields {
  /** The answer would be wrong without these: an offer of this dialect must not be used. */
  readonly missing: readonly string[]
  /** Hints that the upstream does not get. The receipt names them. */
  readonly dropped: readonly string[]
}

interface Use {
  readonly name: string
  readonly isUsed: (conversation: Conversation) => boolean
}

const uses = {
  audio: use('audio', ({ turns }) => hasPart(turns, part => part.kind === 'audio')),
  stop: use('stop', ({ sampling }) => sampling.stop.length > 0),
  topK: use('top_k', ({ sampling }) => sampling.topK !== null),
  presencePenalty: use('presence_penalty', ({ sampling }) => sampling.presencePenalty !== null),
  frequencyPenalty: use('frequency_penalty', ({ sampling }) => sampling.frequencyPenalty !== null),
  seed: use('seed', ({ sampling }) => sampling.seed !== null),
  verbosity: use('verbosity', ({ verbosity }) => verbosity !== null),
  cacheKey: use('prompt_cache_key', ({ cacheKey }) => cacheKey !== null),
  endUser: use('user', ({ endUser }) => endUser !== null),
  parallelToolCalls: use('parallel_tool_calls', ({ parallelToolCalls }) => parallelToolCalls === false),
  strict: use('strict', ({ tools, outputFormat }) => {
    return tools.some(tool => tool.strict) || (outputFormat?.kind === 'json_schema' && outputFormat.strict === true)
  }),
  jsonObject: use('response_format', ({ outputFormat }) => outputFormat?.kind === 'json'),
  grammar: use('grammar', ({ tools }) => tools.some(tool => tool.grammar !== undefined)),
  cacheControl: use('cache_control', conversation => hasCacheHint(conversation)),
  longCacheControl: use('cache_control.ttl', conversation => hasCacheHint(conversation, 'long')),
}

const untranslatable: Readonly<Record<Dialect, { missing: readonly Use[]; dropped: readonly Use[] }>> = {
  chat: { missing: [], dropped: [uses.grammar, uses.cacheControl] },
  responses: {
    missing: [uses.audio, uses.stop],
    dropped: [uses.topK, uses.presencePenalty, uses.frequencyPenalty, uses.seed, uses.cacheControl],
  },
  messages: {
    missing: [uses.audio],
    dropped: [
      ...[uses.presencePenalty, uses.frequencyPenalty, uses.seed, uses.verbosity, uses.cacheKey],
      ...[uses.jsonObject, uses.grammar],
    ],
  },
  gemini: {
    missing: [],
    dropped: [
      ...[uses.verbosity, uses.cacheKey, uses.endUser, uses.parallelToolCalls],
      ...[uses.strict, uses.grammar, uses.cacheControl],
    ],
  },
  converse: {
    missing: [uses.audio],
    dropped: [
      ...[uses.presencePenalty, uses.frequencyPenalty, uses.seed, uses.verbosity, uses.cacheKey],
      ...[uses.endUser, uses.parallelToolCalls, uses.jsonObject, uses.grammar],
    ],
  },
}

/** Returns the fields of this conversation that `dialect` cannot express. */
export function untranslatableFields(conversation: Conversation, dialect: Dialect): UntranslatableFields {
  const namesOf = (list: readonly Use[]) => list.filter(each => each.isUsed(conversation)).map(({ name }) => name)
  return { missing: namesOf(untranslatable[dialect].missing), dropped: namesOf(untranslatable[dialect].dropped) }
}

/**
 * Returns the cache hints of this conversation that a server with Anthropic's caches does not get: they have no price.
 */
export function unpricedCacheHints(conversation: Conversation, priced: 'none' | 'short' | 'long'): readonly string[] {
  if (priced === 'long') return []
  const { name, isUsed } = priced === 'none' ? uses.cacheControl : uses.longCacheControl
  return isUsed(conversation) ? [name] : []
}

function use(name: string, isUsed: Use['isUsed']): Use {
  return { name, isUsed }
}

function hasPart(turns: Conversation['turns'], test: (part: Part) => boolean): boolean {
  return turns.some(({ parts }) => parts.some(test))
}

/** Whether a part or a tool has a cache hint, or one of this kind. */
function hasCacheHint({ system, turns, tools }: Conversation, kind?: CacheHint): boolean {
  const isHint = (cache: CacheHint | undefined) => cache !== undefined && (kind === undefined || cache === kind)
  return (
    [...system, ...tools].some(({ cache }) => isHint(cache)) ||
    hasPart(turns, part => 'cache' in part && isHint(part.cache))
  )
}
