import { Button } from '@mantine/core'
import { type ReactNode, useState } from 'react'
import { countText } from '../format/number-text.ts'
import styles from './parts.module.css'

export interface Column<Row> {
  readonly title: string
  readonly cell: (row: Row) => ReactNode
  readonly align?: 'right'
  /**
   * Where a phone shows the cell: the name on the left, money and actions on the right, or nowhere. Others form the
   * second line.
   */
  readonly place?: 'name' | 'figure' | 'actions' | 'hidden'
  /** A phone shows the title before the cell. */
  readonly isLabelled?: true
}

/** Drawing a thousand rows with menus takes seconds. */
const ROWS_AT_ONCE = 100

/**
 * A table. On a phone, each row is a card of two lines. A long table draws its first 100 rows, and more on demand.
 *
 * @param props.isPaged the caller reads the rows page by page, and shows a button for the next page
 * @param props.onOpen opens a row by a click anywhere in it. The name must also be a link or button, for the keyboard
 */
export function DataTable<Row>({
  label,
  columns,
  rows,
  keyOf,
  onOpen,
  isPaged = false,
}: {
  label: string
  columns: readonly Column<Row>[]
  rows: readonly Row[]
  keyOf: (row: Row) => string
  onOpen?: (row: Row) => void
  isPaged?: boolean
}) {
  const [limit, setLimit] = useState(ROWS_AT_ONCE)
  const shown = isPaged ? rows : rows.slice(0, limit)
  const hidden = rows.length - shown.length
  const table = (
    // A phone shows rows as blocks, which are no table without the roles.
    // biome-ignore-start lint/a11y/noRedundantRoles: see above
    <table className={styles.table} role="table" aria-label={label}>
      <thead role="rowgroup">
        <tr role="row">
          {columns.map(({ title, align }) => (
            <th key={title} role="columnheader" scope="col" data-align={align}>
              {title === '' ? <span className="visually-hidden">Actions</span> : title}
            </th>
          ))}
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
            {columns.map(({ title, cell, align, place, isLabelled }) => (
              <td key={title} role="cell" data-align={align} data-place={place} data-label={isLabelled && title}>
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
          Show {Math.min(ROWS_AT_ONCE, hidden)} more
        </Button>
        <span>{countText(hidden)} are not shown.</span>
      </div>
    </>
  )
}
