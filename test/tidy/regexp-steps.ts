import regexpTree from 'regexp-tree'

/** A part of a parsed pattern. */
export type AstNode = NonNullable<AstRegExp['body']>
type AstRegExp = ReturnType<typeof regexpTree.parse>

/** Matches at a position and passes the end of the match on. Returns false after trying every way. */
type Matcher = (at: number, next: (at: number) => boolean) => boolean

/** The search takes more steps than the caller allowed. */
export class TooManySteps extends Error {}

/** Parses a pattern. Each node has its source text. */
export function parsePattern({ source, flags }: RegExp): AstRegExp {
  return regexpTree.parse(`/${source}/${flags}`, { captureLocations: true })
}

/** The text of a node in the pattern. */
export function sourceOf(node: AstNode): string {
  return (node as { loc?: { source: string } }).loc!.source
}

/** True for nodes that match exactly one character. */
export function isOneCharacter(node: AstNode): boolean {
  return node.type === 'Char' || node.type === 'CharacterClass' || (node.type as string) === 'UnicodeProperty'
}

/**
 * Searches a text as a backtracking engine does, and counts the characters and positions that it tries. V8 has no
 * such count, and times differ from run to run. Texts must not have surrogate pairs.
 */
export class StepCounter {
  readonly #flags: string
  readonly #pattern: Matcher
  readonly #groups: (string | undefined)[] = []
  readonly #accepted = new Map<string, (character: string) => boolean>()
  #text = ''
  #steps = 0
  #stepsMax = 0

  constructor(regex: RegExp) {
    this.#flags = regex.flags.replace(/[gy]/g, '')
    const { body } = parsePattern(regex)
    this.#pattern = this.#compile(body, 1)
  }

  /** Returns the steps of finding all matches. Throws TooManySteps. */
  count(text: string, stepsMax: number): number {
    this.#text = text
    this.#steps = 0
    this.#stepsMax = stepsMax
    for (let start = 0; start <= text.length; ) {
      let end = -1
      this.#step()
      this.#pattern(start, at => {
        end = at
        return true
      })
      start = Math.max(start + 1, end)
    }
    return this.#steps
  }

  #step(): void {
    if (++this.#steps > this.#stepsMax) throw new TooManySteps()
  }

  /** `direction` is -1 inside of a lookbehind. */
  #compile(node: AstNode | null, direction: 1 | -1): Matcher {
    if (node === null) return (at, next) => next(at)
    if (isOneCharacter(node)) return this.#oneCharacter(this.#acceptorOf(node), direction)
    switch (node.type) {
      case 'Alternative': {
        const parts = node.expressions.map(part => this.#compile(part, direction))
        if (direction === -1) parts.reverse()
        const from = (index: number, at: number, next: (at: number) => boolean): boolean =>
          index === parts.length ? next(at) : parts[index]!(at, end => from(index + 1, end, next))
        return (at, next) => from(0, at, next)
      }
      case 'Disjunction': {
        const left = this.#compile(node.left, direction)
        const right = this.#compile(node.right, direction)
        return (at, next) => left(at, next) || right(at, next)
      }
      case 'Group': {
        const inner = this.#compile(node.expression, direction)
        if (!node.capturing) return inner
        const group = node.number
        return (at, next) =>
          inner(at, end => {
            const before = this.#groups[group]
            this.#groups[group] = this.#text.slice(Math.min(at, end), Math.max(at, end))
            if (next(end)) return true
            this.#groups[group] = before
            return false
          })
      }
      case 'Repetition':
        return this.#repetition(node.expression, node.quantifier, direction)
      case 'Backreference':
        return (at, next) => {
          const text = this.#groups[node.number] ?? ''
          this.#step()
          const start = direction === 1 ? at : at - text.length
          return this.#text.startsWith(text, start) && next(direction === 1 ? at + text.length : start)
        }
      case 'Assertion':
        return this.#assertion(node)
      default:
        throw new Error(`The step counter does not know ${node.type} in ${sourceOf(node)}.`)
    }
  }

  #oneCharacter(accepts: (character: string) => boolean, direction: 1 | -1): Matcher {
    return (at, next) => {
      this.#step()
      const index = direction === 1 ? at : at - 1
      return index >= 0 && index < this.#text.length && accepts(this.#text[index]!) && next(at + direction)
    }
  }

  #repetition(
    expression: AstNode,
    quantifier: { greedy: boolean; kind: string; from?: number; to?: number },
    direction: 1 | -1,
  ): Matcher {
    const inner = this.#compile(expression, direction)
    const [from, to] = rangeOf(quantifier)
    const repeat = (times: number, at: number, next: (at: number) => boolean): boolean => {
      const more = () => times < to && inner(at, end => (end !== at || times < from) && repeat(times + 1, end, next))
      const enough = () => times >= from && next(at)
      return quantifier.greedy ? more() || enough() : enough() || more()
    }
    return (at, next) => repeat(0, at, next)
  }

  #assertion(node: Extract<AstNode, { type: 'Assertion' }>): Matcher {
    if (node.kind === 'Lookahead' || node.kind === 'Lookbehind') {
      const inner = this.#compile(node.assertion, node.kind === 'Lookahead' ? 1 : -1)
      const isNegative = node.negative === true
      return (at, next) => inner(at, () => true) !== isNegative && next(at)
    }
    const native = new RegExp(node.kind, `${this.#flags}y`)
    return (at, next) => {
      this.#step()
      // A sticky search looks at the characters around the position only.
      native.lastIndex = at
      return native.test(this.#text) && next(at)
    }
  }

  #acceptorOf(node: AstNode): (character: string) => boolean {
    const source = sourceOf(node)
    let accepts = this.#accepted.get(source)
    if (accepts === undefined) {
      accepts = acceptor(source, this.#flags)
      this.#accepted.set(source, accepts)
    }
    return accepts
  }
}

/** The least and the most repetitions. */
export function rangeOf(quantifier: { kind: string; from?: number; to?: number }): [number, number] {
  const { kind, from = 0, to = Number.POSITIVE_INFINITY } = quantifier
  if (kind === '*') return [0, Number.POSITIVE_INFINITY]
  if (kind === '+') return [1, Number.POSITIVE_INFINITY]
  return kind === '?' ? [0, 1] : [from, to]
}

/** Returns the test for one character, which is remembered per character. */
export function acceptor(source: string, flags: string): (character: string) => boolean {
  const native = new RegExp(`^(?:${source})$`, flags.replace('m', ''))
  const known = new Map<string, boolean>()
  return character => {
    let isAccepted = known.get(character)
    if (isAccepted === undefined) {
      isAccepted = native.test(character)
      known.set(character, isAccepted)
    }
    return isAccepted
  }
}
