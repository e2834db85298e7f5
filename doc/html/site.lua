-- SPDX-License-Identifier: BSD-3-Clause
-- Copyright the librpma authors

-- site.lua -- a pandoc filter that makes a page of the site from a document of the sources
--
-- Names of manuals in bold, and links to other documents, lead to their pages. The title leaves the body: the template
-- shows it. Each table is in a box, which scrolls on a phone or shows its rows as blocks. What the search has to know of the page is written into a
-- file.
--
-- Its metadata:
--   pages        the page of each name of the manuals
--   files        the page, or the copy, of each file of the sources that is on the site
--   project      the folder of the sources
--   source       the file that this page is made from, relative to that folder
--   own-page     this page
--   page-title   its title, as text
--   search-file  where an entry of the search index is written to: an element of an array of JavaScript, with a comma

local pages, files = {}, {}
local own = {}

local function read_meta(meta)
  for name, page in pairs(meta.pages or {}) do
    pages[name] = pandoc.utils.stringify(page)
  end
  for file, page in pairs(meta.files or {}) do
    files[file] = pandoc.utils.stringify(page)
  end
  for _, key in ipairs { 'project', 'source', 'own-page', 'page-title', 'search-file' } do
    own[key] = pandoc.utils.stringify(meta[key])
  end
  meta.pages, meta.files = nil, nil
  return meta
end

-- "doc" and "../README.md": "README.md"; nil if the path leaves the project
local function resolve(folder, path)
  local parts = {}
  for part in (folder .. '/' .. path):gmatch('[^/]+') do
    if part ~= '..' and part ~= '.' then
      table.insert(parts, part)
    elseif part == '..' and not table.remove(parts) then
      return nil
    end
  end
  return table.concat(parts, '/')
end

local function exists(path)
  local file = io.open(own.project .. '/' .. path)
  if file then
    file:close()
  end
  return file ~= nil
end

-- The target on the site; false if it is a file of the sources that is not on the site. What does not exist is left as
-- it is, for the test of the site to find.
local function site_target(target)
  local path, place = target:match('^([^#]*)(.*)$')
  if path == '' or path:match('^%a[%w+.-]*:') then
    return target
  end
  local file = resolve(own.source:match('^(.*)/') or '', path)
  local page = file and (files[file] or files[file .. '/README.md'])
  if page then
    return page .. place
  end
  return not (file and exists(file)) and target
end

local function link_name(strong)
  local page = pages[pandoc.utils.stringify(strong)]
  if page and page ~= own['own-page'] then
    return pandoc.Link(strong, page)
  end
end

local function link_document(link)
  local target = site_target(link.target)
  if not target then
    return link.content
  end
  link.target = target
  return link
end

local function link_image(image)
  image.src = site_target(image.src) or image.src
  return image
end

local function link_html(raw)
  if raw.format:match('^html') then
    for _, attribute in ipairs { 'src', 'href' } do
      raw.text = raw.text:gsub('(%s' .. attribute .. '=")([^"]*)', function(before, target)
        return before .. (site_target(target) or target)
      end)
    end
    return raw
  end
end

-- the cells of a row, in this and in older versions of pandoc
local function cells_of(row)
  return row.cells or row[2]
end

-- Cells with more characters than that hold text. On a phone the rows of such a table become blocks, and each cell shows the
-- heading of its column; other tables scroll.
local LONG_CELL = 45

local function box_table(tbl)
  local class, labels = 'table', {}
  local head = tbl.head.rows or tbl.head[2]
  for i, cell in ipairs(head[1] and cells_of(head[1]) or {}) do
    labels[i] = pandoc.utils.stringify(cell.contents)
  end
  for _, body in ipairs(tbl.bodies) do
    for _, row in ipairs(body.body) do
      for i, cell in ipairs(cells_of(row)) do
        -- the second of two columns explains itself
        if #labels > 2 and labels[i] and labels[i] ~= '' then
          cell.attr.attributes['data-label'] = labels[i]
        end
        if #pandoc.utils.stringify(cell.contents) > LONG_CELL then
          class = 'table text'
        end
      end
    end
  end
  -- the browser chooses the widths of columns
  for i, spec in ipairs(tbl.colspecs) do
    tbl.colspecs[i] = { spec[1] }
  end
  return pandoc.Div({ tbl }, { class = class, tabindex = '0' })
end

local function take_title(doc)
  local first = doc.blocks[1]
  if not doc.meta.title and first and first.t == 'Header' and first.level == 1 then
    doc.meta.title = first.content
    doc.meta['title-id'] = first.identifier
    table.remove(doc.blocks, 1)
  end
end

-- as a string of JavaScript
local function quote(text)
  return '"' .. text:gsub('[%c"\\<]', function(c)
    return string.format('\\u%04x', c:byte())
  end) .. '"'
end

local function content(inline)
  return inline.content
end

-- the words of blocks, without marks and lines of tables
local function words(blocks)
  local plain = pandoc.walk_block(pandoc.Div(blocks), { Emph = content, Strong = content, Link = content })
  local text = pandoc.write(pandoc.Pandoc { plain }, 'plain', { wrap_text = 'wrap-none' })
  return (text:gsub('%-%-+', ' '):gsub('%s+', ' '):gsub('^ ', ''):gsub(' $', ''))
end

-- { page: ..., title: ..., sections: [[id, heading, text], ...] }, the first of them being what is before all headings
local function write_search_entry(doc)
  local sections, heading, blocks = {}, { identifier = '', content = {} }, {}
  local function finish()
    table.insert(sections, string.format('[%s, %s, %s]', quote(heading.identifier),
      quote(pandoc.utils.stringify(heading.content)), quote(words(blocks))))
  end
  for _, block in ipairs(doc.blocks) do
    if block.t == 'Header' then
      finish()
      heading, blocks = block, {}
    else
      table.insert(blocks, block)
    end
  end
  finish()
  local file = assert(io.open(own['search-file'], 'w'))
  assert(file:write(string.format('{ page: %s, title: %s, sections: [\n%s\n] },\n', quote(own['own-page']),
    quote(own['page-title']), table.concat(sections, ',\n'))))
  assert(file:close())
end

local function finish_page(doc)
  take_title(doc)
  write_search_entry(doc)
  return doc
end

return {
  { Meta = read_meta },
  { Strong = link_name, Link = link_document, Image = link_image, RawInline = link_html, RawBlock = link_html,
    Table = box_table },
  { Pandoc = finish_page },
}
