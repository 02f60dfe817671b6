import type { Command } from 'commander'
import type { Offer } from '../domain/offer.ts'
import { readHosterOffers } from '../supply/hosters/hoster-offers.ts'
import { createCommand, createCommandGroup, createSession, type Session } from './command.ts'
import { priceText } from './output.ts'
import { requireMasterKey } from './require-master-key.ts'
import { table } from './table.ts'
import { withDatabase } from './with-database.ts'
import { withRunningPort } from './with-running-port.ts'

export function modelCommands(): Command {
  return createCommandGroup('model', 'List the available models', [list()])
}

function list(): Command {
  return createCommand('list', 'List the models that the gateway would offer, with their servers and prices', [
    'model list',
    'model list --json',
  ]).action(async options => {
    const session = createSession(options)
    const offers = [...(await gatheredOffers(session)), ...(await hosterOffers(session))]
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
        'No models are offered. Declare endpoints in switchyard.yaml or add hosters.',
      ),
    )
  })
}

/** Returns the configured, detected and demo offers, as startup would find them. */
async function gatheredOffers({ config }: Session): Promise<readonly Offer[]> {
  // Imported on demand, because the demo's tokenizer takes longer to load than everything else in the command
  // line.
  const { gatherOffers } = await import('../start/gather-offers.ts')
  const supply = await gatherOffers(withRunningPort(config))
  await supply.close()
  return supply.offers
}

async function hosterOffers(session: Session): Promise<readonly Offer[]> {
  const { offers } = await withDatabase(session, async pool =>
    readHosterOffers(pool, {
      masterKey: await requireMasterKey(session, pool),
      allowPrivateHosters: session.config.hosters.allowPrivateUrls,
      onProblem: session.output.note,
    }),
  )
  return offers
}
