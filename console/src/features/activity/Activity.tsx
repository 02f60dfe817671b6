import { t } from '@lingui/core/macro'
import { Plural, Trans } from '@lingui/react/macro'
import { Button, Select, TextInput } from '@mantine/core'
import { useInfiniteQuery, useQuery } from '@tanstack/react-query'
import { Link, Outlet, useNavigate, useSearch } from '@tanstack/react-router'
import { useState } from 'react'
import type { RequestPage } from '#api/activity.ts'
import { activityQuery, breakdownQuery, sharesQuery } from '../../api/queries.ts'
import { queryText } from '../../api/request.ts'

import { timeText } from '../../format/time-text.ts'
import { CsvExport } from '../../parts/CsvExport.tsx'
import { EmptyState } from '../../parts/EmptyState.tsx'
import { Filters } from '../../parts/Filters.tsx'
import { Loaded } from '../../parts/Loaded.tsx'
import { outcomeWords } from '../../parts/outcome-words.ts'
import { Page } from '../../parts/Page.tsx'
import { Panel } from '../../parts/Panel.tsx'
import { RequestTable } from '../../parts/RequestTable.tsx'
import { When } from '../../parts/When.tsx'
import { useKeyNames } from '../../shell/use-key-names.ts'
import { useCustomerId } from '../../shell/use-session.ts'
import styles from './activity.module.css'
import { type ActivitySearch, readActivitySearch } from './activity-search.ts'
import { HourBars } from './HourBars.tsx'

/** Every request, newest first, with filters. The receipt of one opens next to the list. */
export function Activity() {
  const customerId = useCustomerId()
  const filter = readActivitySearch(useSearch({ strict: false }))
  // An empty period is no request to the gateway, which would refuse it.
  const isEmpty = filter.from !== undefined && filter.to !== undefined && filter.from >= filter.to
  const list = useInfiniteQuery({ ...activityQuery(customerId, filter), enabled: !isEmpty })
  const isFiltered = Object.keys(filter).length > 0
  if (isEmpty) {
    return (
      <Page title={t`Activity`}>
        <ActivityFilters customerId={customerId} filter={filter} />
        <Panel>
          <EmptyState text={t`"Before" must be later than "From": the day of "Before" is not part of the list.`} />
        </Panel>
      </Page>
    )
  }
  return (
    <Page
      title={t`Activity`}
      actions={
        <CsvExport
          // Other filters are another file.
          key={JSON.stringify(filter)}
          path={`customers/${customerId}/usage/export${queryText({ ...filter })}`}
          what={isFiltered ? t`the requests that these filters show` : t`all requests of 30 days`}
        />
      }
    >
      <ActivityFilters customerId={customerId} filter={filter} />
      <HourBars customerId={customerId} filter={filter} />
      <Panel>
        <Loaded query={list} height={720}>
          {({ pages }) => (
            <List
              // Other filters show their newest requests at once.
              key={JSON.stringify(filter)}
              customerId={customerId}
              pages={pages}
              isFiltered={isFiltered}
              isFetching={list.isFetchingNextPage}
              onMore={() => void list.fetchNextPage()}
            />
          )}
        </Loaded>
      </Panel>
      <Outlet />
    </Page>
  )
}

/** The requests. Newer ones wait until the person asks for them, so that nothing moves under the pointer. */
function List({
  customerId,
  pages,
  isFiltered,
  isFetching,
  onMore,
}: {
  customerId: string
  pages: readonly RequestPage[]
  isFiltered: boolean
  isFetching: boolean
  onMore: () => void
}) {
  const keys = useKeyNames().data
  const rows = pages.flatMap(({ data }) => data)
  const [top, setTop] = useState(rows[0]?.id)
  // Ids begin with the time of the request.
  const shown = top === undefined ? rows : rows.filter(({ id }) => id <= top)
  const waiting = shown.length === 0 ? 0 : rows.length - shown.length
  const visible = shown.length === 0 ? rows : shown
  const oldest = pages.at(-1)!
  return (
    <>
      {waiting > 0 && (
        <div className={styles.waiting}>
          <Button variant="default" size="compact-sm" onClick={() => setTop(rows[0]!.id)}>
            <Trans>{waiting} new ↑</Trans>
          </Button>
        </div>
      )}
      {visible.length > 0 && (
        <RequestTable
          customerId={customerId}
          rows={visible}
          hasMore={oldest.has_more}
          keyNames={keys && new Map(keys.data.map(({ id, name }) => [id, name]))}
        />
      )}
      {visible.length === 0 && !oldest.has_more && <Nothing customerId={customerId} isFiltered={isFiltered} />}
      {oldest.archived_before !== null && !oldest.has_more && (
        <p className={styles.more}>
          <Trans>
            Requests before {timeText(new Date(oldest.archived_before))} are archived. Usage still counts them.
          </Trans>
        </p>
      )}
      {oldest.has_more && (
        <div className={styles.more}>
          {oldest.looked_back_to !== null && (
            <span>
              <Trans>
                <Plural value={visible.length} one="# request" other="# requests" /> found. Looked back to{' '}
                <When at={oldest.looked_back_to} />.
              </Trans>
            </span>
          )}
          <Button variant="default" loading={isFetching} onClick={onMore}>
            {oldest.looked_back_to === null ? t`Show older requests` : t`Go on`}
          </Button>
        </div>
      )}
    </>
  )
}

function Nothing({ customerId, isFiltered }: { customerId: string; isFiltered: boolean }) {
  const params = { customerId }
  if (isFiltered) {
    return (
      <EmptyState
        text={t`No request matches these filters. Requests that were refused with an error, such as 402 or 429, are not listed and cost nothing.`}
      >
        <Link to="/c/$customerId/activity" params={params} search={{}}>{t`Clear the filters`}</Link>
      </EmptyState>
    )
  }
  return (
    <EmptyState
      text={t`No request yet. The first one appears here within seconds. Requests that were refused with an error, such as 402, 404 or 429, are not listed: they cost nothing, but count in the limits.`}
    >
      <Link to="/c/$customerId" params={params}>{t`See how to send one`}</Link>
    </EmptyState>
  )
}

/** A customer may have a thousand keys. Typing finds the others. */
const OPTIONS_AT_ONCE = 100

function ActivityFilters({ customerId, filter }: { customerId: string; filter: ActivitySearch }) {
  const navigate = useNavigate()
  const models = useQuery(breakdownQuery(customerId, 90))
  const keys = useKeyNames()
  const labels = useQuery(sharesQuery(customerId, 'labels', { days: 90, interval: 'month', series: OPTIONS_AT_ONCE }))
  const set = (change: Partial<Record<keyof ActivitySearch, string | null>>) => {
    const search = readActivitySearch({ ...filter, ...change })
    void navigate({ to: '/c/$customerId/activity', params: { customerId }, search, replace: true })
  }
  const modelIds = new Set(models.data?.by_model.map(({ model_id }) => model_id))
  if (filter.model !== undefined) modelIds.add(filter.model)
  // Names in brackets stand for several labels, or none.
  const used = labels.data?.data.map(({ id }) => id).filter(id => !id.startsWith('(')) ?? []
  const labelNames = new Set(filter.label === undefined ? used : [...used, filter.label])
  const any = (text: string) => ({ value: '', label: text })
  return (
    <Filters set={Object.values(filter).filter(value => value !== undefined).length} className={styles.filters}>
      <Select
        label={t`Model`}
        searchable
        data={[any(t`All models`), ...[...modelIds].sort().map(id => ({ value: id, label: id }))]}
        value={filter.model ?? ''}
        onChange={model => set({ model })}
      />
      <Select
        label={t`Key`}
        searchable
        limit={OPTIONS_AT_ONCE}
        nothingFoundMessage={t`No key has this name`}
        data={[
          any(t`All keys`),
          ...(keys.data?.data.map(({ id, name, hint }) => ({ value: id, label: `${name} (${hint.slice(-4)})` })) ?? []),
        ]}
        value={filter.key ?? ''}
        onChange={key => set({ key })}
      />
      {labelNames.size > 0 && (
        <Select
          label={t`Label`}
          searchable
          data={[any(t`All labels`), ...[...labelNames].sort().map(id => ({ value: id, label: id }))]}
          value={filter.label ?? ''}
          onChange={label => set({ label })}
        />
      )}
      <Select
        label={t`Server`}
        data={[
          any(t`All servers`),
          { value: 'local', label: t`Local` },
          { value: 'hoster', label: t`Hoster` },
          { value: 'cloud', label: t`Cloud` },
          { value: 'none', label: t`No server` },
        ]}
        value={filter.provider ?? ''}
        onChange={provider => set({ provider })}
      />
      <Select
        label={t`Outcome`}
        data={[
          any(t`All outcomes`),
          { value: 'true', label: t`Succeeded` },
          { value: 'false', label: t`Failed` },
          ...Object.entries(outcomeWords).map(([value, label]) => ({ value, label: t`Only: ${label}` })),
        ]}
        value={filter.outcome ?? filter.success ?? ''}
        onChange={value =>
          set(
            value === 'true' || value === 'false'
              ? { success: value, outcome: null }
              : { outcome: value, success: null },
          )
        }
      />
      <TextInput
        label={t`From (UTC)`}
        type="date"
        value={filter.from?.slice(0, 10) ?? ''}
        onChange={event => set({ from: event.currentTarget.value })}
      />
      <TextInput
        label={t`Before (UTC)`}
        type="date"
        value={filter.to?.slice(0, 10) ?? ''}
        onChange={event => set({ to: event.currentTarget.value })}
      />
    </Filters>
  )
}
