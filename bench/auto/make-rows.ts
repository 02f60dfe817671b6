import { createRandom } from '../../sim/random.ts'
import type { RouterRow } from './read-rows.ts'

/** A made-up model: how good it is at each kind of task, how much length and difficulty hurt it, and its price. */
interface MadeModel {
  readonly id: string
  readonly skill: Readonly<Record<Kind, number>>
  readonly usdPerMillion: number
}

const kinds = ['chat', 'code', 'math', 'long', 'cjk'] as const
type Kind = (typeof kinds)[number]

const models: readonly MadeModel[] = [
  { id: 'small-8b', usdPerMillion: 0.1, skill: { chat: 1.6, code: -0.6, math: -1.2, long: -0.2, cjk: 0.2 } },
  { id: 'coder-32b', usdPerMillion: 0.5, skill: { chat: 0.9, code: 2, math: 0.6, long: 0.3, cjk: -0.4 } },
  { id: 'large-70b', usdPerMillion: 0.9, skill: { chat: 2.1, code: 1, math: 0.9, long: 1.4, cjk: 1.2 } },
  { id: 'frontier', usdPerMillion: 12, skill: { chat: 2.6, code: 2.6, math: 2.4, long: 2.2, cjk: 2.2 } },
]

/**
 * Makes rows in RouterBench's form. The prompts are put together from phrases, and each model answers a kind of task with a
 * probability that its skill and the difficulty give, so the best possible choice is known to be learnable in part only.
 */
export function makeRows(count: number, seed: number): RouterRow[] {
  const random = createRandom(seed)
  return Array.from({ length: count }, () => {
    const kind = random.pick(kinds)
    const difficulty = random.next() * 2 - 1
    const prompt = promptOf(kind, difficulty, items => random.pick(items))
    const tokens = prompt.length / 4 + 256
    return {
      prompt,
      quality: Object.fromEntries(
        models.map(({ id, skill }) => [id, random.chance(1 / (1 + Math.exp(difficulty * 1.5 - skill[kind]))) ? 1 : 0]),
      ),
      answerLength: {},
      costUsd: Object.fromEntries(models.map(({ id, usdPerMillion }) => [id, (tokens * usdPerMillion) / 1e6])),
    }
  })
}

function promptOf(kind: Kind, difficulty: number, pick: (items: readonly string[]) => string): string {
  const sentences = Array.from({ length: kind === 'long' ? 400 : 2 + Math.round((difficulty + 1) * 4) }, () =>
    pick(phrases[kind]),
  )
  return `${pick(openings[kind])} ${sentences.join(' ')}${difficulty > 0.4 ? ' Explain your reasoning step by step, and compare the alternatives.' : ''}`
}

const openings: Readonly<Record<Kind, readonly string[]>> = {
  chat: ['Tell me about', 'Write a short note on', 'What should I know about'],
  code: ['Fix the bug in this function:', 'Refactor this class:', 'Write a unit test for this code:'],
  math: ['Solve the equation.', 'Calculate the probability.', 'How many are left?'],
  long: ['Summarize the following report.', 'Find the contradictions in this text.'],
  cjk: ['请用中文回答这个问题。', '以下の文章を要約してください。'],
}
const phrases: Readonly<Record<Kind, readonly string[]>> = {
  chat: ['the history of bread', 'a weekend in the mountains', 'how to thank a teacher', 'good habits in winter'],
  code: [
    'function add(a, b) { return a + b; }',
    'const items = list.map(item => ({ ...item, id: item.id ?? null }));',
    'if (value === undefined) { throw new Error("missing"); }',
    'class Stack { push(item) { this.items.push(item); } }',
  ],
  math: [
    'Let x^2 + 3*x = 40.',
    'There are 17 apples and 9 of 26 are sold for 4 dollars.',
    'The triangle has sides 3, 4 and 5.',
    '12 * 7 - 30 / 5 = y.',
  ],
  long: [
    'The committee met on a Tuesday and postponed the decision.',
    'Revenue grew while the costs of transport fell in the north.',
  ],
  cjk: ['这个城市的历史非常悠久。', '人工智能正在改变我们的生活。', 'その計画は来年まで延期されました。'],
}

/** Writes rows as CSV in RouterBench's form. */
export function toCsv(rows: readonly RouterRow[]): string {
  const names = Object.keys(rows[0]!.quality)
  const head = ['sample_id', 'prompt', 'eval_name', ...names, ...names.map(name => `${name}|total_cost`)]
  const lines = rows.map(({ prompt, quality, costUsd }, index) => [
    `made-${index}`,
    `"${prompt.replaceAll('"', '""')}"`,
    'made-up',
    ...names.map(name => String(quality[name])),
    ...names.map(name => String(costUsd[name])),
  ])
  return `${[head, ...lines].map(cells => cells.join(',')).join('\n')}\n`
}
