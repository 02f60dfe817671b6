import type { Command } from 'commander'
import type { Offer } from '../domain/offer.ts'
import { readHosterOffers } from '../supply/hosters/hoster-offers.ts'
import { masterKeyOf } from './master-key-of.ts'
import { priceText, table } from './output.ts'
import { noun, type Session, sessionOf, verb } from './verb.ts'
import { withDatabase } from './with-database.ts'

export function modelCommands(): Command {
  return noun('model', 'What can be asked for', [list()])
}

function list(): Command {
  return verb('list', 'List what a start would offer: models, who serves them, prices', [
    'model list',
    'model list --json',
  ]).action(async options => {
    const session = sessionOf(options)
    const offers = [...(await ownOffers(session)), ...(await hosterOffers(session))]
    const rows = offers
      .map(offer => ({
        model: offer.modelId,
        kind: offer.endpoint.kind,
        endpoint: offer.endpoint.name,
        demo: offer.endpoint.demo,
        price_per_million_usd: {
          input: priceText(offer.price.inputPicoPerToken),
          output: priceText(offer.price.outputPicoPerToken),
        },
        context_tokens: offer.contextTokens,
        max_output_tokens: offer.maxOutputTokens,
        features: [...offer.features],
      }))
      .sort((a, b) => (a.model < b.model ? -1 : a.model > b.model ? 1 : 0))
    session.output.result(
      rows,
      table(
        ['model', 'kind', 'served by', 'USD/M in', 'USD/M out', 'context', 'output', 'features'],
        rows.map(row => [
          row.model,
          row.demo ? 'demo' : row.kind,
          row.endpoint,
          row.price_per_million_usd.input,
          row.price_per_million_usd.output,
          String(row.context_tokens),
          String(row.max_output_tokens),
          row.features.join(' '),
        ]),
        'Nothing is offered. Declare endpoints in switchyard.yaml or add hosters.',
      ),
    )
  })
}

/** Configured, detected and the demo, as a start would gather them. */
async function ownOffers({ config }: Session): Promise<readonly Offer[]> {
  // Loaded here: the demo brings a tokenizer, which takes longer than all other commands together.
  const { gatherSupply } = await import('../start/gather-supply.ts')
  const supply = await gatherSupply(config)
  await supply.close()
  return supply.offers
}

async function hosterOffers(session: Session): Promise<readonly Offer[]> {
  const { offers } = await withDatabase(session, async pool =>
    readHosterOffers(pool, {
      masterKey: await masterKeyOf(session, pool),
      allowPrivateHosters: session.config.hosters.allowPrivateUrls,
      onProblem: session.output.note,
    }),
  )
  return offers
}
