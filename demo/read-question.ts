/**
 * Answers the kinds of small questions that any chat model can answer: sums, look-ups, orders, days, counts and loops. Returns
 * undefined for other texts. It stands for the knowledge of a real model, so that audits of simulated hosters mean something.
 */
export function answerQuestion(text: string): string | undefined {
  for (const [pattern, answer] of questions) {
    const match = pattern.exec(text)
    if (match?.groups !== undefined) return answer(match.groups)
  }
  return undefined
}

type Parts = Readonly<Record<string, string | undefined>>

const questions: readonly (readonly [RegExp, (parts: Parts) => string])[] = [
  [
    /had (?<stock>\d+) .*?brought (?<more>\d+) more, and then (?<sold>\d+) were sold/s,
    ({ stock, more, sold }) => `${Number(stock) + Number(more) - Number(sold)}`,
  ],
  [
    /(?<rows>(?:^\w+: \w+\n)+)\n*Which code belongs to (?<name>\w+)\?/m,
    ({ rows, name }) => new RegExp(`^${name}: (\\w+)$`, 'm').exec(rows!)?.[1] ?? 'unknown',
  ],
  [
    /alphabetically: (?<words>[\w, ]+)\. Which word is (?<place>first|second|third|fourth)\?/,
    ({ words, place }) => words!.split(', ').toSorted()[places.indexOf(place!)]!,
  ],
  [
    /Today is (?<today>\w+)\. Which day of the week is it in (?<days>\d+) days\?/,
    ({ today, days }) => weekdays[(weekdays.indexOf(today!) + Number(days)) % 7]!,
  ],
  [
    /How often does "(?<word>\w+)" appear in this list\? (?<list>[\w, ]+)/,
    ({ word, list }) => `${list!.split(/[^\w]+/).filter(each => each === word).length}`,
  ],
  [
    /(?<name>\w+) = (?<start>\d+)\nfor i in range\((?<rounds>\d+)\):\n +\w+ = \w+ \+ (?<step>\d+)/,
    ({ start, rounds, step }) => `${Number(start) + Number(rounds) * Number(step)}`,
  ],
]

const places = ['first', 'second', 'third', 'fourth']
const weekdays = ['Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday', 'Saturday', 'Sunday']
