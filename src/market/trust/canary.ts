import type { OwnCanary } from '../../base/domain/own-canary.ts'
import { drawOne, elementAt } from '../../base/runtime/collections.ts'

/** A prompt with a short answer that a program can check. */
export interface Canary {
  /** `own`: the operator wrote it. */
  readonly family: CanaryFamily | 'own'
  readonly messages: readonly { readonly role: 'system' | 'user'; readonly content: string }[]
  /** The answer has one of these as whole words, in any case. */
  readonly answers: readonly string[]
  /** Enough for the answer and a few words around it. */
  readonly maxTokens: number
}

export const canaryFamilies = ['sum', 'lookup', 'order', 'calendar', 'count', 'code'] as const
export type CanaryFamily = (typeof canaryFamilies)[number]

interface Question {
  readonly text: string
  readonly expected: string
}

/**
 * Makes a canary. Numbers, names, wording and length are drawn for each, so that no two look alike and none repeats.
 * But its templates are in this file, so a hoster can recognise it: for models that nothing else can audit.
 *
 * @param random uniform in [0, 1)
 */
export function makeCanary(random: () => number, family: CanaryFamily = drawOne(canaryFamilies, random)): Canary {
  const { text, expected } = questions[family](random)
  const system = random() < 0.4 ? drawOne(systems, random) : undefined
  return {
    family,
    messages: messagesOf(withNotes(drawOne(askings, random)(text), random), system),
    answers: [expected],
    maxTokens: drawOne([64, 100, 128, 200, 256, 400], random),
  }
}

/** Makes a canary of a prompt of the operator, as it was written. */
export function ownCanary({ prompt, system, answers, maxTokens }: OwnCanary): Canary {
  return { family: 'own', messages: messagesOf(prompt, system), answers, maxTokens }
}

function withNotes(ask: string, random: () => number): string {
  const size = random()
  if (size < 0.6) return ask
  const context = notes(random, size < 0.9 ? 12 : 90)
  return random() < 0.5 ? `${context}\n\n${ask}` : `${ask}\n\n${context}`
}

function messagesOf(content: string, system: string | undefined): Canary['messages'] {
  const user = { role: 'user' as const, content }
  return system === undefined ? [user] : [{ role: 'system', content: system }, user]
}

/** So many words at the start and at the end of an answer count: one that lists every possible result must not pass. */
const WORDS_READ = 25

/** Whether an answer has what is expected. Digits may be grouped, and Markdown may surround it. */
export function isCanaryAnswered({ answers }: Pick<Canary, 'answers'>, answer: string): boolean {
  const words = wordsOf(answer)
  const read = ` ${[...words.slice(0, WORDS_READ), ...words.slice(Math.max(WORDS_READ, words.length - WORDS_READ))].join(' ')} `
  return answers.some(expected => read.includes(` ${wordsOf(expected).join(' ')} `))
}

function wordsOf(text: string): string[] {
  const plain = text.replace(/(?<=\d)[,_\u00a0\u202f](?=\d{3})/g, '').toLowerCase()
  return plain.split(/[^\p{L}\p{N}-]+/u).filter(Boolean)
}

const questions: Readonly<Record<CanaryFamily, (random: () => number) => Question>> = {
  sum(random) {
    const [a, b, c] = [integer(random, 100, 900), integer(random, 100, 900), integer(random, 10, 99)]
    const item = drawOne(goods, random)
    return {
      text: `A shop had ${a} ${item}. A delivery brought ${b} more, and then ${c} were sold. How many ${item} does it have now?`,
      expected: `${a + b - c}`,
    }
  },
  lookup(random) {
    const people = sample(names, 9, random)
    const rows = people.map(name => ({ name, code: codeWord(random) }))
    const wanted = drawOne(rows, random)
    return {
      text: `${rows.map(({ name, code }) => `${name}: ${code}`).join('\n')}\n\nWhich code belongs to ${wanted.name}?`,
      expected: wanted.code,
    }
  },
  order(random) {
    const words = sample(goods, 7, random)
    const sorted = words.toSorted()
    const place = integer(random, 0, 3)
    return {
      text: `Sort these words alphabetically: ${words.join(', ')}. Which word is ${['first', 'second', 'third', 'fourth'][place]}?`,
      expected: elementAt(sorted, place),
    }
  },
  calendar(random) {
    const start = integer(random, 0, 6)
    const days = integer(random, 8, 60)
    return {
      text: `Today is ${weekdays[start]}. Which day of the week is it in ${days} days?`,
      expected: elementAt(weekdays, (start + days) % 7),
    }
  },
  count(random) {
    const wanted = drawOne(goods, random)
    const others = sample(
      goods.filter(word => word !== wanted),
      5,
      random,
    )
    const times = integer(random, 2, 6)
    const list = shuffled([...Array<string>(times).fill(wanted), ...others, ...others.slice(0, 2)], random)
    return { text: `How often does "${wanted}" appear in this list? ${list.join(', ')}`, expected: `${times}` }
  },
  code(random) {
    const [start, step, rounds] = [integer(random, 2, 9), integer(random, 3, 9), integer(random, 3, 6)]
    const name = drawOne(['total', 'x', 'value', 'acc', 'n'], random)
    return {
      text: `What does this print?\n\n${name} = ${start}\nfor i in range(${rounds}):\n    ${name} = ${name} + ${step}\nprint(${name})`,
      expected: `${start + step * rounds}`,
    }
  },
}

const askings: readonly ((question: string) => string)[] = [
  question => `${question} Answer with the result only.`,
  question => `${question}\nJust the answer please, no explanation`,
  question => `quick question: ${question} reply with only the answer`,
  question => `Please answer briefly.\n\n${question}`,
  question => `${question} (short answer)`,
  question => `Hi! ${question} One word or number is enough, thanks.`,
]

const systems = [
  'You are a helpful assistant.',
  'You are a concise assistant. Answer in as few words as possible.',
  'You help employees of a small company with everyday questions.',
  'Answer the user truthfully. Keep it short.',
] as const

const weekdays = ['Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday', 'Saturday', 'Sunday'] as const
const goods = (
  'apples bolts candles drums envelopes flutes gloves hammers inkpots jars kettles lamps mirrors needles oranges ' +
  'pencils quilts ribbons saddles tiles umbrellas vases whistles yardsticks zippers anchors brushes chairs doors eggs'
).split(' ')
const names = (
  'Alma Bruno Carla Dario Edith Felix Greta Hugo Irene Jonas Karin Lukas Marta Nils Olga Pablo Rosa Simon Tilda Urs ' +
  'Vera Wanda Xenia Yusuf Zora Amir Bela Chen Dipa Emeka'
).split(' ')
const places = ['the office', 'the harbour', 'the north gate', 'room 12', 'the depot', 'the library', 'platform 3']
const deeds = ['met the plumber', 'signed the delivery', 'returned the keys', 'called the bank', 'checked the meters']

/** Notes that do not matter for the answer: they make a prompt long. */
function notes(random: () => number, count: number): string {
  const lines = Array.from({ length: count }, () => {
    const time = `${integer(random, 7, 19)}:${integer(random, 10, 59)}`
    return `- ${time} ${drawOne(names, random)} ${drawOne(deeds, random)} at ${drawOne(places, random)}.`
  })
  return `${drawOne(['Notes of today:', 'Log:', 'For context, my notes:'], random)}\n${lines.join('\n')}`
}

function codeWord(random: () => number): string {
  const letters = Array.from({ length: 3 }, () => String.fromCharCode(integer(random, 97, 122))).join('')
  return `${letters}${integer(random, 100, 999)}`
}

/** A whole number from `min` to `max`, both included. */
function integer(random: () => number, min: number, max: number): number {
  return min + Math.floor(random() * (max - min + 1))
}

function shuffled<Item>(items: readonly Item[], random: () => number): Item[] {
  return items
    .map(item => ({ item, key: random() }))
    .toSorted((a, b) => a.key - b.key)
    .map(({ item }) => item)
}

function sample<Item>(items: readonly Item[], count: number, random: () => number): Item[] {
  return shuffled(items, random).slice(0, count)
}
