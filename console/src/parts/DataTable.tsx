import type { ReactNode } from 'react'
import styles from './parts.module.css'

export interface Column<Row> {
  readonly title: string
  readonly cell: (row: Row) => ReactNode
  readonly align?: 'right'
  /** Where a phone shows the cell: the name on the left, money and actions on the right, or nowhere. Others form the second line. */
  readonly place?: 'name' | 'money' | 'actions' | 'hidden'
  /** A phone shows the title before the cell. */
  readonly isLabelled?: true
}

/**
 * A table. On a phone, each row is a card of two lines.
 *
 * @param props.onOpen opens a row by a click anywhere in it. The name must also be a link or button, for the keyboard
 */
export function DataTable<Row>({
  label,
  columns,
  rows,
  keyOf,
  onOpen,
}: {
  label: string
  columns: readonly Column<Row>[]
  rows: readonly Row[]
  keyOf: (row: Row) => string
  onOpen?: (row: Row) => void
}) {
  return (
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
        {rows.map(row => (
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
}
