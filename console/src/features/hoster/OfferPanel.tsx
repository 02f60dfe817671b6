import { plural, t } from '@lingui/core/macro'
import { Trans } from '@lingui/react/macro'
import { Button } from '@mantine/core'
import type { HosterOffers, OfferCandidate } from '#api/hoster-console.ts'
import { countText, shareText } from '../../format/number-text.ts'
import { chargeText, exactUsd, roundUsd } from '../../format/usd-text.ts'
import { type Column, DataTable } from '../../parts/DataTable.tsx'
import { Facts } from '../../parts/Facts.tsx'
import { Panel } from '../../parts/Panel.tsx'
import { Provider } from '../../parts/Provider.tsx'
import { State } from '../../parts/State.tsx'
import { When } from '../../parts/When.tsx'
import { codeText } from '../../texts/code-text.ts'
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
              <Trans>Change{context}</Trans>
            </Button>
          )}
          {onRemove && (
            <Button size="compact-sm" variant="default" onClick={onRemove}>
              <Trans>Remove{context}</Trans>
            </Button>
          )}
        </div>
      }
    >
      <div className={styles.offer}>
        <p>
          <Trans>
            <b>{priceText(offer)}</b> USD per million tokens of input and output
          </Trans>
        </p>
        <Facts
          facts={{
            [t`Cached input`]: cacheText(offer),
            [t`Context`]: t`${countText(offer.context_length)} tokens, of them ${countText(offer.max_output_length)} of output at most`,
            [t`Can do`]: offer.supported_features.map(codeText).join(', '),
            [t`Quantization`]: quantization ?? t`not stated`,
          }}
        />
        {scheduled !== null && (
          <p>
            <Trans>
              <State state="warn">rises</State> to <b>{priceText(scheduled)}</b> on <When at={scheduled.applies_at} />
            </Trans>
          </p>
        )}
        <div>
          <h3 className={styles.stepTitle}>{t`At this price you would have won`}</h3>
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
    ...(read === null ? [] : [t`${exactUsd(read)} read`]),
    ...(write === null ? [] : [t`${exactUsd(write)} written`]),
  ]
  return parts.length === 0 ? null : t`${parts.join(', ')} (USD per million tokens)`
}

function basisText({
  days,
  requests,
  input_tokens: input,
  output_tokens: output,
  is_assumed,
  others,
}: Offer['market']) {
  const typical = t`${countText(input)} tokens in and ${countText(output)} out`
  const basis = is_assumed
    ? t`Nobody has asked for this model in ${days} days, so a request of ${typical} is assumed.`
    : t`In the last ${days} days, ${plural(requests, { one: '# request', other: '# requests' })} for this model were answered here, on average with ${typical}.`
  const against =
    others.length === 0
      ? t`No other server offers it now, so every request comes to you.`
      : t`The estimate ranks each price among those of ${plural(others.length, { one: '# other server', other: '# other servers' })} as they are now, as if all were equally fast.`
  return `${basis} ${against}`
}

function Candidates({ offer: { model, candidates, market } }: { offer: Offer }) {
  return (
    <DataTable
      label={t`What other prices of ${model} would do`}
      rows={candidates}
      keyOf={({ percent }) => String(percent)}
      columns={[
        {
          title: t`Price`,
          place: 'name',
          cell: each => (
            <span className={each.percent === 100 ? styles.now : undefined}>
              {priceText(each)} {each.percent === 100 ? t`(now)` : `(${changeText(each)})`}
            </span>
          ),
        },
        {
          title: t`By price`,
          cell: each =>
            each.wins_cheapest ? t`cheapest` : each.price_rank === 1 ? t`tied` : t`place ${each.price_rank}`,
        },
        {
          title: t`First choice, balanced`,
          align: 'right',
          cell: each => shareText(each.balanced_share),
        },
        ...(market.is_assumed ? [] : demandColumns(market.days)),
        {
          title: t`Applies`,
          cell: each => (each.percent === 100 ? '' : each.needs_notice ? t`after the notice` : t`at once`),
        },
      ]}
    />
  )
}

/** Without demand, there is nothing to multiply the share with. */
function demandColumns(days: number): Column<OfferCandidate>[] {
  return [
    { title: t`Requests`, align: 'right', cell: each => countText(each.requests) },
    {
      title: t`You earn, ${days} days`,
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
      <summary>{t`Servers that compete now`}</summary>
      <DataTable
        label={t`Servers that compete`}
        rows={market.others}
        keyOf={({ name }) => name}
        columns={[
          {
            title: t`Server`,
            place: 'name',
            cell: ({ name, provider }) => <Provider kind={provider} label={name} />,
            sortBy: ({ name }) => name,
          },
          { title: t`Trust`, align: 'right', cell: ({ trust }) => trust.toFixed(2), sortBy: ({ trust }) => trust },
          {
            title: t`Typical request, USD`,
            align: 'right',
            place: 'figure',
            cell: ({ request_usd }) => chargeText(request_usd),
            sortBy: ({ request_usd }) => request_usd,
          },
        ]}
      />
    </details>
  )
}

function Versions({ versions, model }: { versions: Offer['versions']; model: string }) {
  return (
    <details>
      <summary>{t`Earlier prices`}</summary>
      <DataTable
        label={t`Versions of the price of ${model}`}
        rows={versions}
        keyOf={({ version }) => String(version)}
        columns={[
          { title: t`Version`, place: 'name', cell: ({ version }) => version, sortBy: ({ version }) => version },
          {
            title: t`From`,
            cell: ({ valid_from }) => <When at={valid_from} />,
            sortBy: ({ valid_from }) => valid_from,
          },
          {
            title: t`Until`,
            cell: ({ valid_until: at }) => (at === null ? t`now` : <When at={at} />),
          },
          { title: t`Input / output`, align: 'right', place: 'figure', cell: priceText },
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
