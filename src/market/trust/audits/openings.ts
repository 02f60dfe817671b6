/**
 * Openings of texts that a model continues. Names and numbers in them are drawn, so that no two prompts are alike. A hoster that knows this
 * file recognises them: they are sent only where there is neither a reference nor a request of a customer.
 */
const openings: readonly ((name: string, place: string, year: number) => string)[] = [
  (name, place, year) => `Write the first sentences of a short story about ${name} and a move to ${place} in ${year}.`,
  (name, place) => `Suggest a name and a slogan for a bakery that ${name} opens in ${place}.`,
  (_name, place, year) => `Describe what a visitor of ${place} would have noticed on a market day in ${year}.`,
  (name, place) => `Write a polite message in which ${name} asks a landlord in ${place} to repair the heating.`,
  (name, _place, year) => `${name} keeps a diary. Write the entry of the first warm day of ${year}.`,
  (name, place) => `Give ${name} three ideas for a rainy weekend in ${place}.`,
  (_name, place, year) => `Explain to a child why the harbour of ${place} was rebuilt in ${year}.`,
]

const names = ['Alma', 'Bruno', 'Edith', 'Felix', 'Greta', 'Hugo', 'Irene', 'Jonas', 'Marta', 'Nils', 'Olga', 'Yusuf']
const places = ['Bergen', 'Ghent', 'Graz', 'Lublin', 'Nantes', 'Oporto', 'Riga', 'Seville', 'Turku', 'Trieste', 'York']

/**
 * Makes the messages of a request with many possible answers.
 *
 * @param random uniform in [0, 1)
 */
export function openingMessages(random: () => number): readonly { role: 'user'; content: string }[] {
  const pick = <Item>(items: readonly Item[]) => items[Math.floor(random() * items.length)]!
  const content = pick(openings)(pick(names), pick(places), 1850 + Math.floor(random() * 170))
  return [{ role: 'user', content }]
}
