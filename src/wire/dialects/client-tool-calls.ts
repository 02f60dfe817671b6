import type { AnswerEvent } from '../../base/domain/answer-event.ts'
import { customInput } from './tool-arguments.ts'
import type { ToolNames } from './tool-names.ts'

/**
 * Gives tool calls back under the names of the client, after a server got flat names, and functions with one text argument
 * for custom tools. The arguments of a custom call are held back until it ends; all other events pass.
 */
export class ClientToolCalls {
  readonly #names: ToolNames
  /** The arguments of the open call of a custom tool; null outside of one. */
  #held: string | null = null

  /** @param names those of the tools of the request */
  constructor(names: ToolNames) {
    this.#names = names
  }

  /** Returns the events for the client. */
  push(event: AnswerEvent): AnswerEvent[] {
    if (event.kind === 'tool_start' && event.toolKind === 'function') {
      const { kind, name, namespace } = this.#names.named(event.name)
      if (kind === 'custom') this.#held = ''
      return [{ ...event, name, ...(namespace !== undefined && { namespace }), toolKind: kind }]
    }
    if (this.#held === null) return [event]
    if (event.kind === 'tool_arguments') {
      this.#held += event.text
      return []
    }
    if (event.kind !== 'tool_end') return [event]
    const text = customInput(this.#held)
    this.#held = null
    return text === '' ? [event] : [{ kind: 'tool_arguments', text }, event]
  }
}
