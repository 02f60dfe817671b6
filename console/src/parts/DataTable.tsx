import { t } from '@lingui/core/macro'
import { Trans } from '@lingui/react/macro'
import { Button } from '@mantine/core'
import { type ReactNode, useState } from 'react'
import { countText } from '../format/number-text.ts'
import styles from './parts.module.css'
import { nextOrder, type SortOrder, type SortValue, sortRows } from './sort-rows.ts'

export interface Column<Row> {
  readonly title: string
  readonly cell: (row: Row) => ReactNode
  readonly align?: 'right'
  /**
   * Where a phone shows the cell: the name on the left, the main figure or the actions on the right, or nowhere. Others
   * form the lines below. All but names and actions stand below their title.
   */
  readonly place?: 'name' | 'figure' | 'actions' | 'hidden'
  /** Lets the title of the column sort the rows by this value, if all rows are here. */
  readonly sortBy?: (row: Row) => SortValue
  /** The name by which the gateway sorts, for tables with `sorting`. */
  readonly sortKey?: string
}

/** Drawing a thousand rows with menus takes seconds. */
const ROWS_AT_ONCE = 100

/**
 * A table. On a phone, each row is a card of three columns. A long table draws its first 100 rows, and more on demand.
 *
 * @param props.hasMore the rows are read page by page. True: further ones are not here, so they are not sorted here: the
 *   first ones of another order would be missing
 * @param props.sorting the gateway sorts the rows, by columns with a `sortKey`
 * @param props.onOpen opens a row by a click anywhere in it. The name must also be a link or button, for the keyboard
 */
export function DataTable<Row>({
  label,
  columns,
  rows,
  keyOf,
  onOpen,
  hasMore,
  sorting,
}: {
  label: string
  columns: readonly Column<Row>[]
  rows: readonly Row[]
  keyOf: (row: Row) => string
  onOpen?: (row: Row) => void
  hasMore?: boolean
  sorting?: { readonly order: SortOrder | null; readonly onChange: (order: SortOrder | null) => void }
}) {
  const [limit, setLimit] = useState(ROWS_AT_ONCE)
  const [ownOrder, setOwnOrder] = useState<SortOrder | null>(null)
  const { order, onChange } = sorting ?? { order: ownOrder, onChange: setOwnOrder }
  const sortNameOf = ({ title, sortBy, sortKey }: Column<Row>) => {
    // A single row has one order only, and a phone would show the titles for nothing.
    if (rows.length < 2) return undefined
    if (sorting !== undefined) return sortKey
    return sortBy === undefined || hasMore === true ? undefined : title
  }
  const sortBy = columns.find(column => order !== null && sortNameOf(column) === order.column)?.sortBy
  const sorted = order === null || sortBy === undefined ? rows : sortRows(rows, sortBy, order.isDescending)
  const shown = hasMore === undefined ? sorted.slice(0, limit) : sorted
  const hidden = rows.length - shown.length
  const table = (
    // A phone shows rows as blocks, which are no table without the roles.
    // biome-ignore-start lint/a11y/noRedundantRoles: see above
    <table className={styles.table} role="table" aria-label={label}>
      <thead role="rowgroup">
        <tr role="row">
          {columns.map(column => {
            const { title, align } = column
            const sortName = sortNameOf(column)
            const own = order !== null && order.column === sortName ? order : null
            return (
              <th
                key={title}
                role="columnheader"
                scope="col"
                data-align={align}
                {...(sortName !== undefined && { 'data-sorts': true, 'aria-sort': ariaSort(own) })}
              >
                {title === '' && <span className="visually-hidden">{t`Actions`}</span>}
                {sortName === undefined ? (
                  title
                ) : (
                  <button
                    type="button"
                    className={styles.sort}
                    onClick={() => onChange(nextOrder(order, sortName, align === 'right'))}
                  >
                    {title}
                    <SortMark order={own} />
                  </button>
                )}
              </th>
            )
          })}
        </tr>
      </thead>
      <tbody role="rowgroup">
        {shown.map(row => (
          <tr
            key={keyOf(row)}
            role="row"
            {...(onOpen && {
              'data-opens': true,
              onClick: event => {
                if ((event.target as Element).closest('a, button, input, label, [role="menuitem"]')) return
                if (getSelection()?.isCollapsed !== false) onOpen(row)
              },
            })}
          >
            {columns.map(({ title, cell, align, place }) => (
              <td
                key={title}
                role="cell"
                data-align={align}
                data-place={place}
                data-label={place === 'name' || place === 'actions' ? undefined : title}
              >
                {cell(row)}
              </td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
    // biome-ignore-end lint/a11y/noRedundantRoles: see above
  )
  if (hidden === 0) return table
  return (
    <>
      {table}
      <div className={styles.moreRows}>
        <Button variant="default" onClick={() => setLimit(limit + ROWS_AT_ONCE)}>
          <Trans>Show {Math.min(ROWS_AT_ONCE, hidden)} more</Trans>
        </Button>
        <span>
          <Trans>{countText(hidden)} are not shown.</Trans>
        </span>
      </div>
    </>
  )
}

function ariaSort(order: SortOrder | null) {
  if (order === null) return 'none'
  return order.isDescending ? 'descending' : 'ascending'
}

/** The arrow that points to the order is dark. Without an order, both are pale: the title can be clicked. */
function SortMark({ order }: { order: SortOrder | null }) {
  return (
    <svg className={styles.sortMark} width="8" height="12" viewBox="0 0 8 12" aria-hidden="true">
      <path data-is-on={order?.isDescending === false} d="M4 0 7.5 4.5h-7z" />
      <path data-is-on={order?.isDescending === true} d="M4 12 .5 7.5h7z" />
    </svg>
  )
}
