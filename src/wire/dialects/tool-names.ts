import { createHash } from 'node:crypto'
import type { Conversation, ToolKind } from '../../base/domain/conversation.ts'

/** OpenAI accepts 64 characters, Anthropic and Gemini at least as many. */
const NAME_CHARACTERS_MAX = 64
const HASH_CHARACTERS = 8

/** A tool as the client named it. */
export interface NamedTool {
  readonly name: string
  readonly namespace?: string
  readonly kind: ToolKind
}

/**
 * The names of a conversation's tools for upstreams without namespaces: `namespace__name`, shortened with a hash if
 * that is too long. Gives the client's own names back for the calls of the answer.
 */
export class ToolNames {
  readonly #tools = new Map<string, NamedTool>()

  constructor({ tools }: Pick<Conversation, 'tools'>) {
    for (const { kind, name, namespace } of tools) {
      const flat = flatToolName({ name, namespace })
      // A tool without a namespace keeps its name if another one flattens to the same.
      if (namespace !== undefined && this.#tools.has(flat)) continue
      this.#tools.set(flat, { kind, name, ...(namespace !== undefined && { namespace }) })
    }
  }

  /** Returns the tool that an upstream calls by its flat name. A name that no tool has stays as it is. */
  named(flatName: string): NamedTool {
    return this.#tools.get(flatName) ?? { kind: 'function', name: flatName }
  }
}

/** Returns the name of a tool for an upstream without namespaces: at most 64 characters. */
export function flatToolName({
  name,
  namespace,
}: {
  readonly name: string
  readonly namespace?: string | undefined
}): string {
  if (namespace === undefined) return name
  const flat = `${namespace}__${name}`
  if (flat.length <= NAME_CHARACTERS_MAX) return flat
  const hash = createHash('sha256').update(flat).digest('hex').slice(0, HASH_CHARACTERS)
  // The end differs more between the tools of one server than the beginning.
  return `${flat.slice(0, 15)}_${hash}_${flat.slice(-(NAME_CHARACTERS_MAX - HASH_CHARACTERS - 17))}`
}
