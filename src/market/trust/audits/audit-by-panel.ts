import type { HosterOffer } from '../../../base/domain/offer.ts'
import { drawOne, type NonEmpty } from '../../../base/runtime/collections.ts'
import { answerDistance } from '../answer-distance.ts'
import { comparePanel, type Panellist } from '../compare-panel.ts'
import { earlierDistances } from '../evidence/audit-store.ts'
import type { AskedAnswer } from './ask-offer.ts'
import type { RunningAudit } from './audit-deps.ts'
import { drawFields, drawGapMs } from './draw-manners.ts'
import { takeReplay } from './draw-text.ts'
import { recordAudits } from './record-audits.ts'

/** The number of other hosters in a panel. */
export const PANEL_OTHERS = 3
/** A panel asks so many prompts: one answer says little, since answers of one model part ways too. */
export const PANEL_PROMPTS = 4

/**
 * Asks several hosters of a model the same, where there is no reference: four prompts at temperature 0, minutes apart.
 * A hoster that leaves one unanswered is not compared. Log probabilities are asked for only where customers ask for
 * them.
 */
export async function auditByPanel(
  deps: RunningAudit,
  offer: HosterOffer,
  hosters: readonly HosterOffer[],
): Promise<void> {
  const { pool, clock, random, beginVisit, pause } = deps
  const asked: NonEmpty<HosterOffer> = [offer, ...shuffled(hosters, random).slice(0, PANEL_OTHERS)]
  const fields = drawFields(deps)
  const answersOf = new Map(asked.map(server => [server, [] as AskedAnswer[]]))
  for (let prompt = 0; prompt < PANEL_PROMPTS; prompt++) {
    if (prompt > 0) await pause(drawGapMs(deps))
    const { customerId, body } = await drawPrompt(deps, asked, fields)
    const given = await Promise.all(
      asked.map(async server => ({ server, answer: await beginVisit(customerId)(server, body) })),
    )
    for (const { server, answer } of given) {
      if (answer !== null) answersOf.get(server)?.push(answer)
      else if (server === offer) return
    }
  }
  const panel = [...answersOf].flatMap(([{ endpoint }, answer]): Panellist<readonly AskedAnswer[]>[] =>
    answer.length < PANEL_PROMPTS ? [] : [{ hosterId: endpoint.hosterId, answer }],
  )
  const isFingerprint = panel.every(({ answer }) => answer.every(({ topTokens }) => topTokens.length > 0))
  const kind = isFingerprint ? 'fingerprint' : 'agreement'
  const distanceOf = (a: readonly AskedAnswer[], b: readonly AskedAnswer[]) =>
    answerDistance(a, b, isFingerprint ? 'distributions' : 'texts')
  const results = comparePanel(panel, distanceOf, await earlierDistances(pool, offer.modelId, kind))
  await recordAudits(
    pool,
    results.map(({ hosterId, distance, eValues, hasPassed }) => ({
      hosterId,
      modelId: offer.modelId,
      kind,
      eValues,
      hasPassed,
      atMs: clock.epochMs(),
      statistic: distance.overall,
      worst: distance.worst,
      sample: panel.length - 1,
    })),
  )
}

/**
 * A request of a customer, or a built-in text, which a hoster can recognise. Answers can be compared at temperature 0
 * only.
 */
async function drawPrompt(
  deps: RunningAudit,
  asked: NonEmpty<HosterOffer>,
  fields: Readonly<Record<string, unknown>>,
): Promise<{ customerId: string | null; body: Readonly<Record<string, unknown>> }> {
  const replay = await takeReplay(deps, asked, asked[0])
  if (replay !== undefined) {
    const { customerId, body, identifiers } = replay
    return { customerId, body: { ...body, ...identifiers, temperature: 0 } }
  }
  const messages = openingMessages(deps.random)
  return { customerId: null, body: { ...fields, messages, temperature: 0 } }
}

function shuffled<Item>(items: readonly Item[], random: () => number): Item[] {
  return items
    .map(item => ({ item, key: random() }))
    .toSorted((a, b) => a.key - b.key)
    .map(({ item }) => item)
}

/**
 * Openings of texts that a model continues. Names and numbers in them are drawn, so that no two prompts are alike. A
 * hoster that knows this file recognises them: they are sent only where there is neither a reference nor a request of a
 * customer.
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
function openingMessages(random: () => number): readonly { role: 'user'; content: string }[] {
  const pick = <Item>(items: readonly Item[]) => drawOne(items, random)
  const content = pick(openings)(pick(names), pick(places), 1850 + Math.floor(random() * 170))
  return [{ role: 'user', content }]
}
