import { Button } from '@mantine/core'
import type { HosterOffers, OfferCandidate } from '#api/hoster-console.ts'
import { countText, plural, shareText } from '../../format/number-text.ts'
import { chargeText, exactUsd, roundUsd } from '../../format/usd-text.ts'
import { type Column, DataTable } from '../../parts/DataTable.tsx'
import { Facts } from '../../parts/Facts.tsx'
import { Panel } from '../../parts/Panel.tsx'
import { Provider } from '../../parts/Provider.tsx'
import { State } from '../../parts/State.tsx'
import { When } from '../../parts/When.tsx'
import styles from './hoster.module.css'

type Offer = HosterOffers['data'][number]

/** One model: its price, what waits, what other prices would do, the servers that compete, and the earlier prices. */
export function OfferPanel({
  offer,
  quantization,
  onEdit,
  onRemove,
}: {
  offer: Offer
  /** As the manifest says; null: not stated. */
  quantization: string | null
  onEdit: (() => void) | undefined
  onRemove: (() => void) | undefined
}) {
  const { model, scheduled, market, versions } = offer
  const context = <span className="visually-hidden"> {model}</span>
  return (
    <Panel
      title={model}
      aside={
        <div className={styles.buttons}>
          {onEdit && (
            <Button size="compact-sm" variant="default" onClick={onEdit}>
              Change{context}
            </Button>
          )}
          {onRemove && (
            <Button size="compact-sm" variant="default" onClick={onRemove}>
              Remove{context}
            </Button>
          )}
        </div>
      }
    >
      <div className={styles.offer}>
        <p>
          <b>{priceText(offer)}</b> USD per million tokens of input and output
        </p>
        <Facts
          facts={{
            'Cached input': cacheText(offer),
            Context: `${countText(offer.context_length)} tokens, of them ${countText(offer.max_output_length)} of output at most`,
            'Can do': offer.supported_features.join(', '),
            Quantization: quantization ?? 'not stated',
          }}
        />
        {scheduled !== null && (
          <p>
            <State state="warn">rises</State> to <b>{priceText(scheduled)}</b> on <When at={scheduled.applies_at} />
          </p>
        )}
        <div>
          <h3 className={styles.stepTitle}>At this price you would have won</h3>
          <p className={styles.hint}>{basisText(market)}</p>
        </div>
        {market.others.length > 0 && <Candidates offer={offer} />}
        {market.others.length > 0 && <Others market={market} />}
        {versions.length > 1 && <Versions versions={versions} model={model} />}
      </div>
    </Panel>
  )
}

/** Without a price of its own, cached input costs what input costs. */
function cacheText({ cache_read_usd_per_million: read, cache_write_usd_per_million: write }: Offer): string | null {
  const parts = [
    ...(read === null ? [] : [`${exactUsd(read)} read`]),
    ...(write === null ? [] : [`${exactUsd(write)} written`]),
  ]
  return parts.length === 0 ? null : `${parts.join(', ')} (USD per million tokens)`
}

function basisText({
  days,
  requests,
  input_tokens: input,
  output_tokens: output,
  is_assumed,
  others,
}: Offer['market']) {
  const typical = `${countText(input)} tokens in and ${countText(output)} out`
  const basis = is_assumed
    ? `Nobody has asked for this model in ${days} days, so a request of ${typical} is assumed.`
    : `In the last ${days} days, ${plural(requests, 'request')} for this model were answered here, on average with ${typical}.`
  const against =
    others.length === 0
      ? 'No other server offers it now, so every request comes to you.'
      : `The estimate ranks each price among those of ${plural(others.length, 'other server')} as they are now, as if all were equally fast.`
  return `${basis} ${against}`
}

function Candidates({ offer: { model, candidates, market } }: { offer: Offer }) {
  return (
    <DataTable
      label={`What other prices of ${model} would do`}
      rows={candidates}
      keyOf={({ percent }) => String(percent)}
      columns={[
        {
          title: 'Price',
          place: 'name',
          cell: each => (
            <span className={each.percent === 100 ? styles.now : undefined}>
              {priceText(each)} {each.percent === 100 ? '(now)' : `(${changeText(each)})`}
            </span>
          ),
        },
        {
          title: 'By price',
          isLabelled: true,
          cell: each => (each.wins_cheapest ? 'cheapest' : each.price_rank === 1 ? 'tied' : `place ${each.price_rank}`),
        },
        {
          title: 'First choice, balanced',
          align: 'right',
          isLabelled: true,
          cell: each => shareText(each.balanced_share),
        },
        ...(market.is_assumed ? [] : demandColumns(market.days)),
        {
          title: 'Applies',
          cell: each => (each.percent === 100 ? '' : each.needs_notice ? 'after the notice' : 'at once'),
        },
      ]}
    />
  )
}

/** Without demand, there is nothing to multiply the share with. */
function demandColumns(days: number): Column<OfferCandidate>[] {
  return [
    { title: 'Requests', align: 'right', isLabelled: true, cell: each => countText(each.requests) },
    {
      title: `You earn, ${days} days`,
      align: 'right',
      place: 'figure',
      cell: each => <span className={styles.number}>{roundUsd(each.earned_usd)}</span>,
    },
  ]
}

function changeText({ percent }: OfferCandidate): string {
  return percent > 100 ? `+${percent - 100} %` : `−${100 - percent} %`
}

function Others({ market }: { market: Offer['market'] }) {
  return (
    <details>
      <summary>Servers that compete now</summary>
      <DataTable
        label="Servers that compete"
        rows={market.others}
        keyOf={({ name }) => name}
        columns={[
          {
            title: 'Server',
            place: 'name',
            cell: ({ name, provider }) => <Provider kind={provider} label={name} />,
          },
          { title: 'Trust', align: 'right', isLabelled: true, cell: ({ trust }) => trust.toFixed(2) },
          {
            title: 'Typical request, USD',
            align: 'right',
            place: 'figure',
            cell: ({ request_usd }) => chargeText(request_usd),
          },
        ]}
      />
    </details>
  )
}

function Versions({ versions, model }: { versions: Offer['versions']; model: string }) {
  return (
    <details>
      <summary>Earlier prices</summary>
      <DataTable
        label={`Versions of the price of ${model}`}
        rows={versions}
        keyOf={({ version }) => String(version)}
        columns={[
          { title: 'Version', place: 'name', cell: ({ version }) => version },
          { title: 'From', isLabelled: true, cell: ({ valid_from }) => <When at={valid_from} /> },
          {
            title: 'Until',
            isLabelled: true,
            cell: ({ valid_until: at }) => (at === null ? 'now' : <When at={at} />),
          },
          { title: 'Input / output', align: 'right', place: 'figure', cell: priceText },
        ]}
      />
    </details>
  )
}

function priceText({
  input_usd_per_million: input,
  output_usd_per_million: output,
}: {
  input_usd_per_million: number
  output_usd_per_million: number
}): string {
  return `${exactUsd(input)} / ${exactUsd(output)}`
}
