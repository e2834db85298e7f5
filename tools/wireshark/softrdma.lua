-- SPDX-License-Identifier: BSD-3-Clause
-- Copyright the librpma authors

-- softrdma.lua -- shows the protocol of the software device (doc/softrdma-protocol.md) in Wireshark and tshark
--
--	tshark -X lua_script:softrdma.lua -r FILE
--	cp softrdma.lua ~/.local/lib/wireshark/plugins/		for all later runs
--
-- A connection is recognized by its first bytes, on any port. The preference softrdma.ports names the ports of
-- connections whose beginning is not in the capture. A stream inside TLS is left to the dissector of TLS. A datagram over
-- UDP is recognized by its own first bytes.
--
-- The script runs with Lua 5.1 to 5.4, whichever this Wireshark has.

local softrdma = Proto("softrdma", "RDMA over TCP and UDP of the software device")

local HEADER = 32 -- bytes of the header of a frame, and of a handshake message
local RECORD_HEADER = 12
local RECORD_MAX = 65536
local SEGMENT_MAX = 262144
local JOIN_SIZE = 40
local DATAGRAM_HEADER = 68
local DATAGRAM_MAX = 4096
local QP_NUM_MAX = 0xffffff
local FLOW_LABEL_MAX = 0xfffff
-- enough of a message, a frame or a record to know its length
local LENGTH_KNOWN = 12

local handshakes = { [1] = "CONNECT", [2] = "ACCEPT", [3] = "REJECT", [4] = "JOIN", [5] = "RESOLVE" }
local reasons = {
	[3] = "too many requests are pending",
	[5] = "the passive side speaks TLS only",
	[6] = "the request was damaged on its way",
	[8] = "no listener, or no such queue pair",
	[28] = "refused by the application",
	[31] = "the version is not spoken here",
}
local opcodes = {
	[1] = "SEND",
	[2] = "WRITE",
	[3] = "READ",
	[4] = "ATOMIC_WRITE",
	[5] = "COMPARE_SWAP",
	[6] = "FETCH_ADD",
	[7] = "FLUSH",
	[8] = "RESYNC",
	[16] = "ACK",
	[17] = "READ_RESPONSE",
	[18] = "ATOMIC_RESPONSE",
	[19] = "NAK",
	[20] = "RNR",
	[21] = "RNR_READY",
	[32] = "READY",
	[33] = "DISCONNECT",
	[34] = "SHM_OFFER",
}
local SEND, WRITE, READ, ATOMIC_WRITE, COMPARE_SWAP, FETCH_ADD, FLUSH = 1, 2, 3, 4, 5, 6, 7
local ATOMIC_RESPONSE, NAK, SHM_OFFER = 18, 19, 34
local FIRST, LAST, IMM = 1, 2, 4
local DATAGRAM_IMM, DATAGRAM_SUMMED, DATAGRAM_FLAGS = 1, 4, 7
local flush_types = { [1] = "global", [2] = "persistent" }
local naks = {
	[1] = "invalid request",
	[2] = "memory access refused",
	[3] = "the responder could not",
	[4] = "the queue pair is in error",
}

local f = softrdma.fields
-- of every message, frame and datagram, exactly once; a datagram has no number, and neither has the answer to RESOLVE
f.name = ProtoField.string("softrdma.name", "Name")
f.seq = ProtoField.uint32("softrdma.seq", "Number of the request")
f.length = ProtoField.uint32("softrdma.length", "Bytes that follow the header")
-- handshake messages
f.magic = ProtoField.string("softrdma.magic", "Magic")
f.version = ProtoField.uint16("softrdma.version", "Version")
f.type = ProtoField.uint8("softrdma.type", "Type", base.DEC, handshakes)
f.qp_num = ProtoField.uint32("softrdma.qp_num", "Queue pair", base.HEX)
f.qkey = ProtoField.uint32("softrdma.qkey", "Q_Key of the queue pair of datagrams", base.HEX)
f.responder_resources = ProtoField.uint8("softrdma.responder_resources", "Responder resources")
f.initiator_depth = ProtoField.uint8("softrdma.initiator_depth", "Initiator depth")
f.rnr_retry = ProtoField.uint8("softrdma.rnr_retry", "RNR retries")
f.flow_control = ProtoField.uint8("softrdma.flow_control", "Flow control")
f.reason = ProtoField.uint16("softrdma.reason", "Reason", base.DEC, reasons)
f.records = ProtoField.uint8("softrdma.records", "Records with check sums", base.HEX)
f.reserved = ProtoField.uint8("softrdma.reserved", "Reserved", base.HEX)
f.private_crc = ProtoField.uint32("softrdma.private_crc", "CRC32C of the private data", base.HEX)
f.crc = ProtoField.uint32("softrdma.crc", "CRC32C of the header", base.HEX)
f.private_data = ProtoField.bytes("softrdma.private_data", "Private data")
f.dst_gid = ProtoField.bytes("softrdma.join.dst_gid", "GID of the receiver")
f.src_gid = ProtoField.bytes("softrdma.join.src_gid", "GID of the sender")
f.dst_qp_num = ProtoField.uint32("softrdma.join.dst_qp_num", "Queue pair of the receiver", base.HEX)
f.expected = ProtoField.uint32("softrdma.join.expected", "Number of the receiver's first request")
-- frames
f.opcode = ProtoField.uint8("softrdma.opcode", "Opcode", base.DEC, opcodes)
f.flags = ProtoField.uint8("softrdma.flags", "Flags", base.HEX)
f.first = ProtoField.bool("softrdma.flags.first", "First frame of a message", 8, nil, 1)
f.last = ProtoField.bool("softrdma.flags.last", "Last frame of a message", 8, nil, 2)
f.imm = ProtoField.bool("softrdma.flags.imm", "Immediate data", 8, nil, 4)
f.solicited = ProtoField.bool("softrdma.flags.solicited", "Solicited", 8, nil, 8)
f.ack_later = ProtoField.bool("softrdma.flags.ack_later", "The acknowledgement may come late", 8, nil, 16)
f.code = ProtoField.uint16("softrdma.code", "Code")
f.flush_type = ProtoField.uint16("softrdma.flush_type", "Kind of flush", base.DEC, flush_types)
f.nak = ProtoField.uint16("softrdma.nak", "Refusal", base.DEC, naks)
f.key = ProtoField.uint32("softrdma.key", "Key", base.HEX)
f.addr = ProtoField.uint64("softrdma.addr", "Address", base.HEX)
f.arg = ProtoField.uint64("softrdma.arg", "Argument")
f.read_length = ProtoField.uint64("softrdma.read_length", "Bytes asked for")
f.range = ProtoField.uint64("softrdma.range", "Bytes of the range")
f.message_length = ProtoField.uint64("softrdma.message_length", "Bytes of the whole message")
f.imm_data = ProtoField.bytes("softrdma.imm_data", "Immediate data")
f.payload = ProtoField.bytes("softrdma.payload", "Payload")
f.value = ProtoField.uint64("softrdma.value", "Value", base.HEX)
f.compare = ProtoField.uint64("softrdma.compare", "Value to compare with", base.HEX)
f.swap = ProtoField.uint64("softrdma.swap", "Value to store", base.HEX)
f.shm_process = ProtoField.uint32("softrdma.shm.process", "Process")
f.shm_fd = ProtoField.uint32("softrdma.shm.fd", "Descriptor of the registry")
f.shm_slot = ProtoField.uint32("softrdma.shm.slot", "Slot of the connection")
f.shm_id = ProtoField.bytes("softrdma.shm.id", "Random bytes of the registry")
-- records
f.record_number = ProtoField.uint32("softrdma.record.number", "Number of the record in its direction")
f.record_length = ProtoField.uint32("softrdma.record.length", "Bytes of the stream")
f.record_length_crc = ProtoField.uint32("softrdma.record.length_crc", "CRC32C of number and length", base.HEX)
f.record_crc = ProtoField.uint32("softrdma.record.crc", "CRC32C", base.HEX)
f.rest = ProtoField.bytes("softrdma.rest", "Rest of the payload of an earlier record's frame")
f.beginning = ProtoField.bytes("softrdma.beginning", "Beginning of a header, which the next record goes on with")
-- datagrams
f.datagram_flags = ProtoField.uint8("softrdma.datagram.flags", "Flags", base.HEX)
f.datagram_imm = ProtoField.bool("softrdma.datagram.flags.imm", "Immediate data", 8, nil, 1)
f.datagram_solicited = ProtoField.bool("softrdma.datagram.flags.solicited", "Solicited", 8, nil, 2)
f.datagram_summed = ProtoField.bool("softrdma.datagram.flags.summed", "Check sum", 8, nil, 4)
f.datagram_dst_qp_num = ProtoField.uint32("softrdma.datagram.dst_qp_num", "Queue pair of the receiver", base.HEX)
f.datagram_src_qp_num = ProtoField.uint32("softrdma.datagram.src_qp_num", "Queue pair of the sender", base.HEX)
f.datagram_qkey = ProtoField.uint32("softrdma.datagram.qkey", "Q_Key", base.HEX)
f.datagram_traffic_class = ProtoField.uint8("softrdma.datagram.traffic_class", "Traffic class", base.HEX)
f.datagram_hop_limit = ProtoField.uint8("softrdma.datagram.hop_limit", "Hop limit")
f.datagram_reserved = ProtoField.uint16("softrdma.datagram.reserved", "Reserved", base.HEX)
f.datagram_flow_label = ProtoField.uint32("softrdma.datagram.flow_label", "Flow label", base.HEX)
f.datagram_src_gid = ProtoField.ipv6("softrdma.datagram.src_gid", "GID of the sender")
f.datagram_dst_gid = ProtoField.ipv6("softrdma.datagram.dst_gid", "GID of the receiver")
f.datagram_crc = ProtoField.uint32("softrdma.datagram.crc", "CRC32C of the datagram", base.HEX)
f.datagram_unused = ProtoField.bytes("softrdma.datagram.unused", "Unused")
-- GIDs that hold an IPv4 address and a port
f.gid_index = ProtoField.uint8("softrdma.gid.index", "Index in the port's table")
f.gid_addr = ProtoField.ipv4("softrdma.gid.addr", "Address")
f.gid_port = ProtoField.uint16("softrdma.gid.port", "TCP port")
f.gid_random = ProtoField.bytes("softrdma.gid.random", "Random bytes")

local bad_crc = ProtoExpert.new("softrdma.bad_crc", "Wrong check sum", expert.group.CHECKSUM, expert.severity.ERROR)
local not_understood = ProtoExpert.new("softrdma.not_understood", "Nothing of this protocol",
	expert.group.PROTOCOL, expert.severity.WARN)
local refused = ProtoExpert.new("softrdma.refused", "Refused", expert.group.RESPONSE_CODE, expert.severity.NOTE)
softrdma.experts = { bad_crc, not_understood, refused }

softrdma.prefs.ports = Pref.range("TCP ports", "", "Ports of connections whose beginning is not in the capture", 65535)
softrdma.prefs.middle_has_records = Pref.bool("Records without a beginning", false,
	"Connections whose beginning is not in the capture go in records with check sums")
softrdma.prefs.check_records = Pref.bool("Compute the check sums of records", false,
	"Compute the sum of each whole record, which takes 10 ms for 64 KiB. Other sums are always compared.")

local tcp_stream = Field.new("tcp.stream")

-- --- CRC32C ---

local bitwise = bit or bit32
if not bitwise then
	-- the operators of Lua 5.3, which earlier ones could not parse
	bitwise = load([[return {
		bxor = function(a, b) return a ~ b end,
		band = function(a, b) return a & b end,
		rshift = function(a, n) return a >> n end,
	}]])()
end
local bxor, band, rshift = bitwise.bxor, bitwise.band, bitwise.rshift

local crc_table = {}
for i = 0, 255 do
	local crc = i
	for _ = 1, 8 do
		local odd = band(crc, 1) == 1
		crc = rshift(crc, 1)
		if odd then
			crc = bxor(crc, 0x82f63b78)
		end
	end
	crc_table[i] = crc
end

local function crc32c(bytes)
	local crc = 0xffffffff
	for i = 1, #bytes do
		crc = bxor(rshift(crc, 8), crc_table[band(bxor(crc, bytes:byte(i)), 0xff)])
	end
	return bxor(crc, 0xffffffff) % 0x100000000
end

local function le32(value)
	return string.char(value % 256, math.floor(value / 256) % 256, math.floor(value / 65536) % 256,
		math.floor(value / 16777216) % 256)
end

-- adds a check sum (little-endian), and marks it if it is not the wanted one
local function add_crc(tree, field, range, wanted)
	local item = tree:add_le(field, range)
	if range:le_uint() == wanted then
		item:append_text(" (right)")
	else
		item:append_text(string.format(" (wrong: 0x%08x is right)", wanted))
		item:add_proto_expert_info(bad_crc)
	end
end

-- --- what is known of each TCP connection ---

-- by tcp.stream: whether it has records, and for each direction where the next record begins in the stream of frames
local connections = {}

function softrdma.init()
	connections = {}
end

local function connection_of()
	local stream = tcp_stream()
	local number = stream and stream.value or 0
	if not connections[number] then
		connections[number] = { directions = {}, seen = {} }
	end
	return connections[number]
end

local function has_records(connection)
	if connection.records == nil then
		return softrdma.prefs.middle_has_records
	end
	return connection.records
end

-- --- handshake messages ---

local between = "" -- two entries of the column Info

local function add_info(pinfo, text)
	pinfo.cols.info:append(between .. text)
	between = "; "
end

local function add_name(tree, pinfo, name, range, note)
	tree:add(f.name, range, name)
	tree:append_text(": " .. name .. note)
	add_info(pinfo, name .. note)
end

local function dissect_join(tvb, tree)
	tree:add(f.dst_gid, tvb(0, 16))
	tree:add(f.src_gid, tvb(16, 16))
	tree:add_le(f.dst_qp_num, tvb(32, 4))
	tree:add_le(f.expected, tvb(36, 4))
end

local function dissect_handshake(tvb, pinfo, parent)
	local tree = parent:add(softrdma, tvb())
	local connection = connection_of()
	local version = tvb(4, 2):le_uint()
	local kind = tvb(6, 1):uint()
	local private_len = tvb(7, 1):uint()
	local name = handshakes[kind] or string.format("handshake message %d", kind)
	local reason = tvb(20, 2):le_uint()
	local answers_resolve = kind == 2 and connection.resolves
	local note = ""
	if kind == 3 then
		note = string.format(" (%s)", reasons[reason] or reason)
	elseif answers_resolve then
		note = string.format(" (datagrams to 0x%06x)", tvb(8, 4):le_uint())
	end
	add_name(tree, pinfo, name, tvb(6, 1), note)
	tree:add(f.magic, tvb(0, 4))
	tree:add_le(f.version, tvb(4, 2))
	local kind_item = tree:add(f.type, tvb(6, 1))
	tree:add(f.length, tvb(7, 1))
	tree:add_le(f.qp_num, tvb(8, 4))
	tree:add_le(answers_resolve and f.qkey or f.seq, tvb(12, 4))
	tree:add(f.responder_resources, tvb(16, 1))
	tree:add(f.initiator_depth, tvb(17, 1))
	tree:add(f.rnr_retry, tvb(18, 1))
	tree:add(f.flow_control, tvb(19, 1))
	local reason_item = tree:add_le(f.reason, tvb(20, 2))
	tree:add(f.records, tvb(22, 1))
	tree:add(f.reserved, tvb(23, 1))
	if kind == 3 then
		reason_item:add_proto_expert_info(refused, "Connection refused: " .. (reasons[reason] or reason))
	end
	local private = private_len > 0 and tvb(HEADER, private_len) or nil
	add_crc(tree, f.private_crc, tvb(24, 4), private and crc32c(private:raw()) or 0)
	add_crc(tree, f.crc, tvb(28, 4), crc32c(tvb(0, 28):raw()))
	if not handshakes[kind] or version ~= 3 then
		kind_item:add_proto_expert_info(not_understood)
	end
	connection.begun = true
	if kind == 4 then
		connection.by_hand = true
	elseif kind == 5 then
		connection.resolves = true
	end
	if kind == 2 then
		connection.records = tvb(22, 1):uint() == 1
	end
	if private then
		local item = tree:add(f.private_data, private)
		if private_len == JOIN_SIZE and (kind == 4 or (kind == 2 and connection.by_hand)) then
			dissect_join(private:tvb(), item)
		end
	end
end

-- --- frames ---

local function add_flags(tree, range)
	local flags = range:uint()
	local item = tree:add(f.flags, range)
	item:add(f.first, range)
	item:add(f.last, range)
	item:add(f.imm, range)
	item:add(f.solicited, range)
	item:add(f.ack_later, range)
	return flags
end

local function add_code(tree, range, opcode)
	if opcode == FLUSH then
		tree:add_le(f.flush_type, range)
	elseif opcode == NAK then
		local code = range:le_uint()
		local item = tree:add_le(f.nak, range)
		item:add_proto_expert_info(refused, "Request refused: " .. (naks[code] or code))
	else
		tree:add_le(f.code, range)
	end
end

local function add_memory(tree, tvb, opcode)
	if opcode == SHM_OFFER then
		tree:add_le(f.shm_process, tvb(12, 4))
		tree:add_le(f.shm_fd, tvb(16, 4))
		tree:add_le(f.shm_slot, tvb(20, 4))
	else
		tree:add_le(f.key, tvb(12, 4))
		tree:add_le(f.addr, tvb(16, 8))
	end
end

local function add_argument(tree, range, opcode, flags)
	local is_message = opcode == SEND or opcode == WRITE
	if opcode == READ then
		tree:add_le(f.read_length, range)
	elseif opcode == FLUSH then
		tree:add_le(f.range, range)
	elseif is_message and band(flags, IMM) ~= 0 then
		tree:add(f.imm_data, range(0, 4))
	elseif is_message and band(flags, FIRST) ~= 0 and band(flags, LAST) == 0 then
		tree:add_le(f.message_length, range)
	else
		tree:add_le(f.arg, range)
	end
end

-- operands are shown if all of them are there
local function add_payload(tree, range, opcode, length)
	local complete = range:len() == length
	if complete and length == 16 and opcode == COMPARE_SWAP then
		tree:add_le(f.compare, range(0, 8))
		tree:add_le(f.swap, range(8, 8))
	elseif complete and length == 8 and
		(opcode == FETCH_ADD or opcode == ATOMIC_WRITE or opcode == ATOMIC_RESPONSE) then
		tree:add_le(f.value, range)
	elseif complete and opcode == SHM_OFFER then
		tree:add(f.shm_id, range)
	else
		tree:add(f.payload, range)
	end
end

local function note_of(tvb, opcode, length)
	local seq = tvb(4, 4):le_uint()
	if opcode == NAK then
		local code = tvb(2, 2):le_uint()
		return string.format(" %d (%s)", seq, naks[code] or code)
	elseif opcode == READ or opcode == FLUSH then
		return string.format(" %d, %s bytes", seq, tostring(tvb(24, 8):le_uint64()))
	elseif length > 0 then
		return string.format(" %d, %d bytes", seq, length)
	elseif opcode < 32 then
		return string.format(" %d", seq)
	end
	return ""
end

-- a frame whose header is complete; its payload may go on in the next record
local function dissect_frame(tvb, pinfo, parent)
	local tree = parent:add(softrdma, tvb())
	local opcode = tvb(0, 1):uint()
	local length = tvb(8, 4):le_uint()
	add_name(tree, pinfo, opcodes[opcode], tvb(0, 1), note_of(tvb, opcode, length))
	tree:add(f.opcode, tvb(0, 1))
	local flags = add_flags(tree, tvb(1, 1))
	add_code(tree, tvb(2, 2), opcode)
	tree:add_le(f.seq, tvb(4, 4))
	tree:add_le(f.length, tvb(8, 4))
	add_memory(tree, tvb, opcode)
	add_argument(tree, tvb(24, 8), opcode, flags)
	if tvb:len() > HEADER then
		add_payload(tree, tvb(HEADER), opcode, length)
	end
end

-- the bytes from the header of a frame to its end; nil: there is none
local function frame_length(tvb, offset)
	local length = tvb(offset + 8, 4):le_uint()
	if not opcodes[tvb(offset, 1):uint()] or length > SEGMENT_MAX then
		return nil
	end
	return HEADER + length
end

local function dissect_unknown(range, pinfo, parent)
	local tree = parent:add(softrdma, range, "Bytes that are not understood")
	tree:add_proto_expert_info(not_understood)
	add_info(pinfo, "[not understood]")
end

-- --- records ---

-- Gives what is known of a record: its number, and where it begins in the stream of frames. The records of a direction
-- are seen in order at first; later they are found again by their headers, which the check sums make unique.
local function place_of(connection, pinfo, header)
	local direction = tostring(pinfo.src) .. " " .. pinfo.src_port
	local key = direction .. header
	local place = connection.seen[key]
	local is_new = place == nil
	if is_new then
		local state = connection.directions[direction] or { number = 0, skip = 0, prefix = "" }
		place = { number = state.number, skip = state.skip, prefix = state.prefix }
		connection.seen[key] = place
		connection.directions[direction] = state
		state.number = state.number + 1
	end
	return place, connection.directions[direction], is_new
end

local function hex_of(bytes)
	return (bytes:gsub(".", function(byte)
		return string.format("%02x", byte:byte())
	end))
end

-- Dissects the frames of a record. The first bytes may belong to a frame of an earlier record: the rest of its payload
-- (skip), or of its header (prefix). Returns both for the next record.
local function dissect_frames(tvb, pinfo, parent, place)
	local offset = math.min(place.skip, tvb:len())
	local skip = place.skip - offset
	if offset > 0 then
		parent:add(f.rest, tvb(0, offset))
		add_info(pinfo, string.format("[%d more bytes]", offset))
	end
	while tvb:len() - offset >= HEADER do
		local length = frame_length(tvb, offset)
		if not length then
			dissect_unknown(tvb(offset), pinfo, parent)
			return 0, ""
		end
		local here = math.min(length, tvb:len() - offset)
		dissect_frame(tvb(offset, here):tvb(), pinfo, parent)
		offset = offset + here
		skip = length - here
	end
	local prefix = ""
	if offset < tvb:len() then
		parent:add(f.beginning, tvb(offset))
		prefix = tvb(offset):raw()
	end
	return skip, prefix
end

local function dissect_record(tvb, pinfo, parent)
	local connection = connection_of()
	local header = tvb(0, RECORD_HEADER):raw()
	local place, state, is_new = place_of(connection, pinfo, header)
	local tree = parent:add(softrdma, tvb(), string.format("Record %d with check sums", place.number))
	tree:add(f.record_number, place.number):set_generated()
	tree:add_le(f.record_length, tvb(0, 4))
	-- the numbers of a connection whose beginning is missing are unknown
	local sums = connection.records ~= nil
	local number = le32(place.number) .. le32(0)
	if sums then
		add_crc(tree, f.record_length_crc, tvb(4, 4), crc32c(number .. header:sub(1, 4)))
	else
		tree:add_le(f.record_length_crc, tvb(4, 4))
	end
	if sums and softrdma.prefs.check_records then
		local bytes = number .. header:sub(1, 4) .. tvb(RECORD_HEADER):raw()
		add_crc(tree, f.record_crc, tvb(8, 4), crc32c(bytes))
	else
		tree:add_le(f.record_crc, tvb(8, 4))
	end
	local stream = tvb(RECORD_HEADER):tvb()
	if #place.prefix > 0 then
		local bytes = ByteArray.new(hex_of(place.prefix))
		bytes:append(tvb(RECORD_HEADER):bytes())
		stream = bytes:tvb("Frames of several records")
	end
	local skip, prefix = dissect_frames(stream, pinfo, parent, place)
	if is_new then
		state.skip, state.prefix = skip, prefix
	end
end

-- --- the stream ---

local function is_handshake(tvb, offset)
	return tvb(offset, 4):raw() == "SRDM"
end

-- the bytes of the record at this offset; nil: there is none
local function record_length(tvb, offset)
	local length = tvb(offset, 4):le_uint()
	if length == 0 or length > RECORD_MAX then
		return nil
	end
	return RECORD_HEADER + length
end

-- all that remains, if it is not understood
local function pdu_length(tvb, _, offset)
	local length
	if is_handshake(tvb, offset) then
		length = HEADER + tvb(offset + 7, 1):uint()
	elseif has_records(connection_of()) then
		length = record_length(tvb, offset)
	else
		length = frame_length(tvb, offset)
	end
	return length or tvb:reported_length_remaining(offset)
end

local function dissect_pdu(tvb, pinfo, tree)
	if is_handshake(tvb, 0) then
		dissect_handshake(tvb, pinfo, tree)
	elseif has_records(connection_of()) and record_length(tvb, 0) then
		dissect_record(tvb, pinfo, tree)
	elseif not has_records(connection_of()) and frame_length(tvb, 0) then
		dissect_frame(tvb, pinfo, tree)
	else
		dissect_unknown(tvb(), pinfo, tree)
	end
	return tvb:len()
end

-- A stream over TLS comes here if its port is one of softrdma.ports. Records can begin with the same bytes, so a
-- connection that is known is not asked.
local function is_tls(tvb)
	if connection_of().begun or softrdma.prefs.middle_has_records or tvb:len() < 2 then
		return false
	end
	local kind = tvb(0, 1):uint()
	return kind >= 20 and kind <= 23 and tvb(1, 1):uint() == 3
end

local function dissect(tvb, pinfo, tree)
	if is_tls(tvb) then
		return 0 -- not this protocol: the dissector of TLS recognizes it, and takes the connection
	end
	pinfo.cols.protocol = "SoftRDMA"
	pinfo.cols.info:clear()
	between = ""
	dissect_tcp_pdus(tvb, tree, LENGTH_KNOWN, pdu_length, dissect_pdu)
	pinfo.cols.info:fence()
	return tvb:len()
end

softrdma.dissector = dissect

-- A connection begins with a message: the magic, and a known type. The function is called directly: below one more
-- dissector, TCP would not put the segments of a longer message together.
local function begins_connection(tvb, pinfo, tree)
	if tvb:len() < 8 or not is_handshake(tvb, 0) or not handshakes[tvb(6, 1):uint()] then
		return false
	end
	pinfo.conversation = softrdma
	dissect(tvb, pinfo, tree)
	return true
end

softrdma:register_heuristic("tcp", begins_connection)

-- --- datagrams ---

-- adds a field, and marks it unless it is as it should be
local function add_checked(tree, field, range, is_good, why)
	local item = tree:add_le(field, range)
	if not is_good then
		item:add_proto_expert_info(not_understood, why)
	end
	return item
end

local function add_unused(tree, range, why)
	add_checked(tree, f.datagram_unused, range, range:le_uint() == 0, why)
end

-- The random bytes of a GID are as good as a password. They are no part of any text, and no number.
local function add_gid(tree, field, label, range)
	local item = tree:add(field, range)
	if range(0, 3):raw() ~= "\252\083\001" then
		return
	end
	item:set_text(string.format("%s: %s, port %d", label, tostring(range(4, 4):ipv4()), range(8, 2):uint()))
	item:add(f.gid_index, range(3, 1))
	item:add(f.gid_addr, range(4, 4))
	item:add(f.gid_port, range(8, 2))
	item:add(f.gid_random, range(10, 6))
end

local function add_datagram_flags(tree, range)
	local flags = range:uint()
	local item = add_checked(tree, f.datagram_flags, range, flags <= DATAGRAM_FLAGS, "Unknown flags")
	item:add(f.datagram_imm, range)
	item:add(f.datagram_solicited, range)
	item:add(f.datagram_summed, range)
	return flags
end

-- the capture may lack the end of a datagram, whose sum is then unknown
local function add_datagram_crc(tree, tvb, flags)
	local range = tvb(64, 4)
	if band(flags, DATAGRAM_SUMMED) == 0 then
		add_unused(tree, range, "A check sum without its flag")
	elseif tvb:len() < tvb:reported_len() then
		tree:add_le(f.datagram_crc, range)
	else
		local bytes = tvb:raw()
		add_crc(tree, f.datagram_crc, range, crc32c(bytes:sub(1, 64) .. le32(0) .. bytes:sub(DATAGRAM_HEADER + 1)))
	end
end

local function dissect_datagram_header(tvb, tree)
	local length = tvb(6, 2):le_uint()
	local dst, src = tvb(8, 4), tvb(12, 4)
	tree:add(f.magic, tvb(0, 4))
	tree:add(f.version, tvb(4, 1))
	local flags = add_datagram_flags(tree, tvb(5, 1))
	add_checked(tree, f.length, tvb(6, 2),
		length <= DATAGRAM_MAX and length == tvb:reported_len() - DATAGRAM_HEADER, "Not the length of the datagram")
	add_checked(tree, f.datagram_dst_qp_num, dst, dst:le_uint() <= QP_NUM_MAX, "More than 24 bits")
	add_checked(tree, f.datagram_src_qp_num, src, src:le_uint() <= QP_NUM_MAX, "More than 24 bits")
	tree:add_le(f.datagram_qkey, tvb(16, 4))
	if band(flags, DATAGRAM_IMM) ~= 0 then
		tree:add(f.imm_data, tvb(20, 4))
	else
		add_unused(tree, tvb(20, 4), "Immediate data without its flag")
	end
	tree:add(f.datagram_traffic_class, tvb(24, 1))
	tree:add(f.datagram_hop_limit, tvb(25, 1))
	add_checked(tree, f.datagram_reserved, tvb(26, 2), tvb(26, 2):le_uint() == 0, "Not 0")
	add_checked(tree, f.datagram_flow_label, tvb(28, 4), tvb(28, 4):le_uint() <= FLOW_LABEL_MAX, "More than 20 bits")
	add_gid(tree, f.datagram_src_gid, "GID of the sender", tvb(32, 16))
	add_gid(tree, f.datagram_dst_gid, "GID of the receiver", tvb(48, 16))
	add_datagram_crc(tree, tvb, flags)
end

-- A datagram begins with the magic and the version. All the rest may be wrong, and is shown as such.
local function dissect_datagram(tvb, pinfo, parent)
	if tvb:len() < 5 or tvb(0, 5):raw() ~= "SRUD\001" then
		return false
	end
	pinfo.cols.protocol = "SoftRDMA"
	pinfo.cols.info:clear()
	between = ""
	if tvb:reported_len() < DATAGRAM_HEADER then
		dissect_unknown(tvb(), pinfo, parent)
		return true
	elseif tvb:len() < DATAGRAM_HEADER then
		parent:add(softrdma, tvb(), "A datagram whose header is not whole in the capture")
		add_info(pinfo, "DATAGRAM [not whole in the capture]")
		return true
	end
	local tree = parent:add(softrdma, tvb())
	add_name(tree, pinfo, "DATAGRAM", tvb(0, 4), string.format(" from 0x%06x to 0x%06x, %d bytes",
		tvb(12, 4):le_uint(), tvb(8, 4):le_uint(), tvb(6, 2):le_uint()))
	dissect_datagram_header(tvb, tree)
	if tvb:len() > DATAGRAM_HEADER then
		tree:add(f.payload, tvb(DATAGRAM_HEADER))
	end
	return true
end

softrdma:register_heuristic("udp", dissect_datagram)

local ports_in_use = ""

function softrdma.prefs_changed()
	local ports = tostring(softrdma.prefs.ports)
	if ports == ports_in_use then
		return
	end
	local by_port = DissectorTable.get("tcp.port")
	if ports_in_use ~= "" then
		by_port:remove(ports_in_use, softrdma)
	end
	if ports ~= "" then
		by_port:add(ports, softrdma)
	end
	ports_in_use = ports
end
