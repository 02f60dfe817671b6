const weekdays = ['Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday', 'Saturday', 'Sunday']

/** Answers the canaries of src/trust/canary.ts, as a good model would. */
export function solveCanary(prompt: string): string {
  const shop = /had (\d+) .* brought (\d+) more, and then (\d+) were sold/.exec(prompt)
  if (shop) return `${Number(shop[1]) + Number(shop[2]) - Number(shop[3])}`
  const name = /Which code belongs to (\w+)\?/.exec(prompt)?.[1]
  if (name !== undefined) return new RegExp(`^.*${name}: (\\w+)$`, 'm').exec(prompt)![1]!
  const sort = /alphabetically: ([\w, ]+)\. Which word is (\w+)\?/.exec(prompt)
  if (sort) return sort[1]!.split(', ').sort()[['first', 'second', 'third', 'fourth'].indexOf(sort[2]!)]!
  const day = /Today is (\w+)\. .* in (\d+) days\?/.exec(prompt)
  if (day) return weekdays[(weekdays.indexOf(day[1]!) + Number(day[2])) % 7]!
  const list = /How often does "(\w+)" appear in this list\? ([\w, ]+)/.exec(prompt)
  if (list) return `${list[2]!.match(new RegExp(`\\b${list[1]}\\b`, 'g'))!.length}`
  const loop = /= (\d+)\nfor i in range\((\d+)\):\n.* \+ (\d+)\n/.exec(prompt)
  if (loop) return `${Number(loop[1]) + Number(loop[2]) * Number(loop[3])}`
  throw new Error(`no canary: ${prompt}`)
}
