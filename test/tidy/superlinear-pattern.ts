import {
  type AstNode,
  acceptor,
  isOneCharacter,
  parsePattern,
  rangeOf,
  StepCounter,
  sourceOf,
  TooManySteps,
} from './regexp-steps.ts'

/** A text for which the time to search for a pattern grows faster than its length. */
export interface Attack {
  readonly prefix: string
  /** Repeated. */
  readonly unit: string
  readonly suffix: string
}

/** Lengths of the repeated part. A repetition that is limited to 256 characters is linear at the longer ones. */
const SHORT = 150
const LONG = 600
const STEPS_MAX = 3_000_000

/**
 * Finds a text that makes the search for a pattern superlinear: one that repeats parts of what the pattern matches.
 * Returns null if there is none among a few hundred texts.
 */
export function findAttack(regex: RegExp): Attack | null {
  const counter = new StepCounter(regex)
  const stepsOf = ({ prefix, unit, suffix }: Attack, length: number) =>
    counter.count(prefix + unit.repeat(Math.ceil(length / unit.length)) + suffix, STEPS_MAX)
  for (const attack of attacksOn(regex)) {
    try {
      const short = stepsOf(attack, SHORT)
      if (short > 2.2 * stepsOf(attack, SHORT / 2)) {
        // Twice the length takes four times as long if the time is quadratic.
        if (stepsOf(attack, 2 * LONG) > 3 * stepsOf(attack, LONG)) return attack
      }
    } catch (error) {
      if (error instanceof TooManySteps || error instanceof RangeError) return attack
      throw error
    }
  }
  return null
}

function* attacksOn(regex: RegExp): Generator<Attack, void, undefined> {
  const { body } = parsePattern(regex)
  if (body === null) return
  const characters = representatives(body, regex.flags)
  const units = new Set<string>()
  const prefixes = new Set<string>(['', '\0'])
  visit(body, '', new Sampler(characters, regex.flags), prefixes, units)
  // Without a long repetition every position takes a constant time.
  if (units.size === 0) return
  for (const one of characters) {
    units.add(one)
    if (characters.length <= 12) for (const other of characters) units.add(one + other)
  }
  units.delete('')
  for (const unit of units) {
    for (const prefix of prefixes) for (const suffix of ['', '\0', '!a', '\n']) yield { prefix, unit, suffix }
  }
}

/** Collects what precedes each repetition, and texts that the repetition matches. */
function visit(
  node: AstNode | null,
  before: string,
  sampler: Sampler,
  prefixes: Set<string>,
  units: Set<string>,
): void {
  if (node === null) return
  switch (node.type) {
    case 'Alternative': {
      let prefix = before
      for (const part of node.expressions) {
        visit(part, prefix, sampler, prefixes, units)
        prefix += sampler.samples(part)[0]!
      }
      return
    }
    case 'Disjunction':
      visit(node.left, before, sampler, prefixes, units)
      visit(node.right, before, sampler, prefixes, units)
      return
    case 'Group':
      visit(node.expression, before, sampler, prefixes, units)
      return
    case 'Assertion':
      if ('assertion' in node) visit(node.assertion, before, sampler, prefixes, units)
      return
    case 'Repetition': {
      const [, to] = rangeOf(node.quantifier)
      if (to > 16) {
        if (prefixes.size < 5) prefixes.add(before)
        const samples = sampler.samples(node.expression)
        for (const one of samples) {
          units.add(one)
          units.add(before + one)
          for (const other of samples) units.add(one + other)
        }
      }
      visit(node.expression, before, sampler, prefixes, units)
    }
  }
}

/** Texts that a node matches, the shortest first. */
class Sampler {
  readonly #characters: readonly string[]
  readonly #flags: string

  constructor(characters: readonly string[], flags: string) {
    this.#characters = characters
    this.#flags = flags
  }

  samples(node: AstNode | null): readonly string[] {
    if (node === null) return ['']
    if (isOneCharacter(node)) {
      const accepted = this.#characters.filter(acceptor(sourceOf(node), this.#flags))
      return accepted.length > 0 ? accepted.slice(0, 4) : ['']
    }
    switch (node.type) {
      case 'Alternative':
        return node.expressions.reduce<string[]>(
          (starts, part) => starts.flatMap(start => this.samples(part).map(end => start + end)).slice(0, 4),
          [''],
        )
      case 'Disjunction':
        return [...this.samples(node.left), ...this.samples(node.right)].slice(0, 6)
      case 'Group':
        return this.samples(node.expression)
      case 'Repetition': {
        const [from] = rangeOf(node.quantifier)
        return this.samples(node.expression).map(sample => sample.repeat(from))
      }
      default:
        return ['']
    }
  }
}

/** One character for each set of characters that the pattern does not tell apart, digits and letters first. */
function representatives(body: AstNode, flags: string): string[] {
  const acceptors: ((character: string) => boolean)[] = [
    character => /\w/.test(character),
    character => character === '\n',
  ]
  const collect = (node: AstNode | null): void => {
    if (node === null) return
    if (isOneCharacter(node)) acceptors.push(acceptor(sourceOf(node), flags))
    else if (node.type === 'Alternative') node.expressions.forEach(collect)
    else if (node.type === 'Disjunction') [node.left, node.right].forEach(collect)
    else if (node.type === 'Group' || node.type === 'Repetition') collect(node.expression)
    else if (node.type === 'Assertion' && 'assertion' in node) collect(node.assertion)
  }
  collect(body)
  const byKind = new Map<string, string>()
  for (const character of candidates) {
    const kind = acceptors.map(accepts => Number(accepts(character))).join('')
    if (!byKind.has(kind)) byKind.set(kind, character)
  }
  return [...byKind.values()]
}

const ascii = Array.from({ length: 95 }, (_, n) => String.fromCharCode(32 + n))
const candidates = [...'0aAz', ...ascii, '\t', '\n', '\r', '\0', '\u00a0', 'é', '漢']
