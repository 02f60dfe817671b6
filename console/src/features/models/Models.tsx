import { t } from '@lingui/core/macro'
import { Checkbox, Select, TextInput } from '@mantine/core'
import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useState } from 'react'
import type { Model } from '#api/models.ts'
import { modelFactsQuery, modelsQuery, statusQuery } from '../../api/queries.ts'
import { historyText } from '../../format/history-text.ts'
import { compactCount, durationText } from '../../format/number-text.ts'
import { exactUsd } from '../../format/usd-text.ts'
import { answersChats } from '../../parts/answers-chats.ts'
import { CopyButton } from '../../parts/CopyButton.tsx'
import { DataTable } from '../../parts/DataTable.tsx'
import { EmptyState } from '../../parts/EmptyState.tsx'
import { Loaded } from '../../parts/Loaded.tsx'
import { Page } from '../../parts/Page.tsx'
import { Panel } from '../../parts/Panel.tsx'
import { Provider } from '../../parts/Provider.tsx'
import { State } from '../../parts/State.tsx'
import { useCustomerId } from '../../shell/use-session.ts'
import { codeText } from '../../texts/code-text.ts'
import styles from './models.module.css'

const orders = {
  price: (a: Model, b: Model) => sum(a) - sum(b),
  name: (a: Model, b: Model) => a.id.localeCompare(b.id),
  context: (a: Model, b: Model) => b.context_length - a.context_length,
} as const

function sum({ pricing }: Model): number {
  return pricing.input_usd_per_million + pricing.output_usd_per_million
}

const states = {
  ok: { mark: 'ok', word: t`up` },
  degraded: { mark: 'warn', word: t`partly down` },
  down: { mark: 'danger', word: t`down` },
  unknown: { mark: 'off', word: t`no request lately` },
} as const

/** What can be asked for, with prices. */
export function Models() {
  const customerId = useCustomerId()
  const models = useQuery(modelsQuery(customerId))
  const facts = useQuery(modelFactsQuery(customerId))
  const status = useQuery(statusQuery)
  const [text, setText] = useState('')
  const [order, setOrder] = useState<keyof typeof orders>('price')
  const [hasTools, setTools] = useState(false)
  const [hasImages, setImages] = useState(false)
  return (
    <Page title={t`Models`}>
      <p className={styles.hint}>{t`A request for the model "auto" goes to one of these, chosen by routing.`}</p>
      <section className={styles.filters} aria-label={t`Filters`}>
        <TextInput
          label={t`Search`}
          type="search"
          value={text}
          onChange={event => setText(event.currentTarget.value)}
        />
        <Select
          label={t`Sort by`}
          data={[
            { value: 'price', label: t`Price` },
            { value: 'name', label: t`Name` },
            { value: 'context', label: t`Context` },
          ]}
          value={order}
          onChange={value => setOrder((value ?? 'price') as keyof typeof orders)}
        />
        <Checkbox label={t`Tools`} checked={hasTools} onChange={event => setTools(event.currentTarget.checked)} />
        <Checkbox label={t`Images`} checked={hasImages} onChange={event => setImages(event.currentTarget.checked)} />
      </section>
      <Panel
        aside={<span className={styles.hint}>{t`Prices in USD per million tokens, from the cheapest server`}</span>}
      >
        <Loaded query={models} height={300}>
          {({ data }) => {
            const rows = data
              .filter(({ id, features }) => {
                if (hasTools && !features.includes('tools')) return false
                if (hasImages && !features.includes('images')) return false
                return id.toLowerCase().includes(text.trim().toLowerCase())
              })
              .sort(orders[order])
            if (data.length === 0)
              return <EmptyState text={t`Nothing is offered now. Ask the operator of this server.`} />
            if (rows.length === 0) return <EmptyState text={t`No model matches these filters.`} />
            return (
              <DataTable
                label={t`Models`}
                rows={rows}
                keyOf={({ id }) => id}
                columns={[
                  {
                    title: t`Model`,
                    place: 'name',
                    cell: ({ id, features }) => (
                      <span className={styles.name}>
                        {answersChats({ features }) ? (
                          <Link to="/c/$customerId/playground" params={{ customerId }} search={{ model: id }}>
                            {id}
                          </Link>
                        ) : (
                          id
                        )}{' '}
                        <CopyButton text={id} what={t`the id`} />
                      </span>
                    ),
                    sortBy: ({ id }) => id,
                  },
                  {
                    title: t`Servers`,
                    cell: ({ providers }) => (
                      <span className={styles.providers}>
                        {providers.map(kind => (
                          <Provider key={kind} kind={kind} />
                        ))}
                      </span>
                    ),
                  },
                  {
                    title: t`State`,
                    cell: ({ id }) => {
                      const known = status.data?.models.find(each => each.id === id)
                      if (known === undefined) return null
                      // This customer may be kept from a server that serves others.
                      const isAway = facts.data?.data.find(each => each.id === id)?.is_available === false
                      const state = states[isAway ? 'down' : known.state]
                      return <State state={state.mark}>{state.word}</State>
                    },
                  },
                  {
                    title: t`90 days`,
                    place: 'hidden',
                    cell: ({ id }) => {
                      const known = status.data?.models.find(each => each.id === id)
                      return known === undefined ? null : historyText(known)
                    },
                  },
                  {
                    title: t`First token`,
                    align: 'right',
                    cell: ({ id }) => {
                      const ms = facts.data?.data.find(each => each.id === id)?.first_token_ms ?? null
                      return ms === null ? '–' : durationText(ms)
                    },
                  },
                  {
                    title: t`Context`,
                    align: 'right',
                    cell: each => compactCount(each.context_length),
                    sortBy: ({ context_length }) => context_length,
                  },
                  {
                    title: t`Features`,
                    cell: ({ features }) => features.map(codeText).join(', '),
                  },
                  {
                    title: t`Input / output`,
                    align: 'right',
                    place: 'figure',
                    cell: ({ pricing }) => (
                      <span className={styles.price}>
                        {exactUsd(pricing.input_usd_per_million)} / {exactUsd(pricing.output_usd_per_million)}
                        {pricing.cache_read_usd_per_million < pricing.input_usd_per_million && (
                          <span className={styles.hint}>
                            {' '}
                            {t`cached ${exactUsd(pricing.cache_read_usd_per_million)}`}
                          </span>
                        )}
                      </span>
                    ),
                  },
                ]}
              />
            )
          }}
        </Loaded>
      </Panel>
    </Page>
  )
}
